"""Alarms about a pipeline, from outside of it.

profile    the pipeline's own words → how long what may take
world      what was seen at one moment
evaluator  one moment after the other → alarms; pure, with its clock in what it is given
"""
