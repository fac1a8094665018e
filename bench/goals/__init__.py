"""What the line is to cost: goals as ratios of processor time, measured on both sides in one run.

`python -m bench.goals NAME '{"lines": …}'` runs one measure of `bench.goals.report.MEASURES`, both
sides in turn in one session that is warm, and prints its figures as JSON, by goal. Ratios mean the
same on any machine.
"""
