-- What the planner computes for every query that reads the table, and the log would tell of; read by test_source_code.py.

--- an index
CREATE INDEX ON person ((age + public.f(1)));
--- an index's condition
CREATE INDEX ON person (age) WHERE age > public.f(1);
--- statistics
CREATE STATISTICS public.st ON (age + public.f(1)), id FROM public.person;
--- a part's index
CREATE TABLE public.grown () INHERITS (person) WITH (autovacuum_enabled = off); CREATE INDEX ON public.grown ((age + public.f(1)));
