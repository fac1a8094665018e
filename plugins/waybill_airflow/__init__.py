"""The adapter between Airflow and the library: DAGs, operators, buttons and pages.

Knows Airflow and the library; the library knows neither. Nothing here imports Spark, Arrow, pandas
or Great Expectations: stages run in processes of their own.
"""
