"""Everything that touches PySpark. Importing the package starts nothing."""
