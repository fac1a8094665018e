"""The plugin's pages on Airflow's web server, each behind Airflow's own login and permissions."""
