-- Ends once no other session is left.
DO $$ BEGIN
  WHILE EXISTS (
    SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  ) LOOP
    PERFORM pg_sleep(0.05), pg_stat_clear_snapshot();
  END LOOP;
END $$
