"""Reconciliation: did every ingested message of a tenant reach exactly one end state?

law        one id: where it was seen → what is wrong with it, if anything
day        a tenant's day: what was read, what was found → CLOSED, OPEN, NOT-YET or BLIND
watermark  closed days → how far all is complete, never past a hole
"""
