CREATE TABLE ware AS SELECT generate_series(1, 3) AS id;
CREATE TABLE ten (id integer, tenant integer, price numeric);
CREATE FUNCTION cur_tenant() RETURNS integer LANGUAGE sql STABLE AS
  $$ select current_setting('app.tenant', true)::int $$;
CREATE FUNCTION net(p numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS
  $$ begin return p * 1.2; end $$;
CREATE VIEW nets AS SELECT id, net(price) AS net FROM ten;
CREATE POLICY p ON ten USING (tenant = cur_tenant());
ALTER TABLE ten ENABLE ROW LEVEL SECURITY;
