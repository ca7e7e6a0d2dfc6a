CREATE FUNCTION public.act() RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN EXECUTE format('COPY (SELECT 1) TO %L', '{file}'); RETURN 'x'; END $$;
CREATE FUNCTION public.calm(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN t; END $$;
CREATE FUNCTION public.sure(t text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN true; END $$;
CREATE FUNCTION public.same(t text, u text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN PERFORM public.act(); RETURN true; END $$;
CREATE TABLE public.victim (name text, n int);
INSERT INTO public.victim VALUES ('a', 1), ('b', 2);
