"""Processes that are killed: each runs transactions with one client and notes on stdout what it is about to do."""
