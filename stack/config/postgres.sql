-- Airflow's database, beside that of the lake's catalog.
CREATE DATABASE airflow;
