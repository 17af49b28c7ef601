-- The surrogate key follows from the customer's own: a fact that comes first knows it already.
SELECT md5(id) AS customer_key,
       * EXCEPT (tags, preferences, last_login),
       tags[0] AS tier,
       tags[1] AS city,
       get_json_object(preferences, '$.language') AS language
FROM staged
