"""Keeping stores healthy: catch up, settle, compact, give space back. Progress lives in the control plane."""
