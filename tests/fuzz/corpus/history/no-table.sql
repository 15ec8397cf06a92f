DROP TABLE spans;
