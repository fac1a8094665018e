"""Plain tables merged in tasks: from the log to data files and deletes, without a row in Java.

A table is plain for a batch if the newest image of each key decides its row (`plain`). Tasks that
read the log keep the newest change of each key (`winners`), Spark's shuffle brings those of a key
together, and tasks write them beside the rows that are there (`writing`). What is not plain takes
the way of `waybill.merge.table`: tables, and single keys of plain tables.
"""
