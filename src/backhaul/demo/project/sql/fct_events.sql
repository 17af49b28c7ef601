SELECT id,
       at,
       kind,
       CAST(get_json_object(payload, '$.page') AS int) AS page,
       CAST(get_json_object(payload, '$.ms') AS int) AS ms
FROM staged
