-- A key that an operator of users compares; the function sees a value and may do anything with it.
CREATE FUNCTION public.same(text, text) RETURNS boolean {function};
CREATE OPERATOR public.=== (leftarg = text, rightarg = text, function = public.same);
CREATE OPERATOR CLASS public.same_ops FOR TYPE text USING btree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 public.===, OPERATOR 4 >=, OPERATOR 5 >,
  FUNCTION 1 bttextcmp(text, text);
CREATE TABLE parent (k text);
CREATE UNIQUE INDEX ON parent (k public.same_ops);
CREATE TABLE child (k text REFERENCES parent (k));
