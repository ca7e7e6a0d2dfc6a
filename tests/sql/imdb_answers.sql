-- What follows SELECT count(*) FROM, each under the published answer; read by test_house_imdb.py.

--- 1107925
title t WHERE t.production_year > 2004
--- 305766
title t WHERE t.kind_id = 1 AND t.production_year < 1988
--- 12670688
cast_info WHERE role_id = 1
--- 1029245
movie_keyword WHERE keyword_id < 1007
--- 2886675
title t, movie_keyword mk WHERE t.id = mk.movie_id AND t.kind_id = 1
--- 14824459
title t, cast_info ci WHERE t.id = ci.movie_id AND t.kind_id < 7
