SELECT o.id,
       md5(o.customer_id) AS customer_key,
       d.date_key,
       coalesce(c.tier, 'unknown') AS tier,
       o.status,
       o.total,
       o.updated_at
FROM staged AS o
LEFT JOIN analytics.dim_customer AS c
  ON c.customer_key = md5(o.customer_id) AND c.is_current
LEFT JOIN analytics.dim_date AS d ON d.day = CAST(o.updated_at AS date)
