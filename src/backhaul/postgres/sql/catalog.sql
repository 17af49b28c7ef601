-- name: relations
-- The relations asked for, by schema and name, with what the server says about their size.
WITH asked AS (
    SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS a(schema_name, name)
)
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text,
       has_schema_privilege(n.oid, 'USAGE')
           AND (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')),
       c.relreplident::text, row_security_active(c.oid)
FROM asked AS a
JOIN pg_catalog.pg_namespace AS n ON n.nspname = a.schema_name
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = a.name
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f');

-- name: column
-- A column by its table's oid and its number.
SELECT n.nspname, c.relname, a.attname
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE a.attrelid = %(oid)s::oid AND a.attnum = %(number)s AND NOT a.attisdropped;

-- name: attributes
-- The live columns of many relations in their order, each with the type below its domains.
WITH RECURSIVE below AS (
    SELECT t.oid AS domain_oid, t.typbasetype AS base_oid, t.typtypmod AS typmod,
           t.typndims AS dimensions
    FROM pg_catalog.pg_type AS t WHERE t.typtype = 'd'
    UNION ALL
    SELECT b.domain_oid, t.typbasetype,
           CASE WHEN b.typmod >= 0 THEN b.typmod ELSE t.typtypmod END,
           greatest(b.dimensions, t.typndims)
    FROM below AS b JOIN pg_catalog.pg_type AS t ON t.oid = b.base_oid WHERE t.typtype = 'd'
), resolved AS (
    SELECT b.* FROM below AS b
    JOIN pg_catalog.pg_type AS t ON t.oid = b.base_oid WHERE t.typtype <> 'd'
)
SELECT a.attrelid::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       a.atttypid::bigint,
       coalesce(element_domain.typmod, domain.typmod, a.atttypmod),
       NOT a.attnotnull, a.attgenerated::text,
       CASE WHEN base.typnamespace = 'pg_catalog'::regnamespace THEN base.typname ELSE '' END,
       base.typtype::text,
       CASE WHEN element.oid IS NULL THEN NULL
            WHEN element_base.typnamespace = 'pg_catalog'::regnamespace THEN element_base.typname
            ELSE '' END,
       greatest(a.attndims, domain.dimensions)::int,
       has_column_privilege(a.attrelid, a.attnum, 'SELECT')
FROM pg_catalog.pg_attribute AS a
LEFT JOIN resolved AS domain ON domain.domain_oid = a.atttypid
JOIN pg_catalog.pg_type AS base ON base.oid = coalesce(domain.base_oid, a.atttypid)
LEFT JOIN pg_catalog.pg_type AS element
    ON element.oid = base.typelem AND element.typarray = base.oid
LEFT JOIN resolved AS element_domain ON element_domain.domain_oid = element.oid
LEFT JOIN pg_catalog.pg_type AS element_base
    ON element_base.oid = coalesce(element_domain.base_oid, element.oid)
WHERE a.attrelid = ANY(%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum;

-- name: types
-- The same for types alone, by oid: what a query's result columns are.
WITH RECURSIVE below AS (
    SELECT t.oid AS domain_oid, t.typbasetype AS base_oid, t.typtypmod AS typmod
    FROM pg_catalog.pg_type AS t WHERE t.typtype = 'd'
    UNION ALL
    SELECT b.domain_oid, t.typbasetype,
           CASE WHEN b.typmod >= 0 THEN b.typmod ELSE t.typtypmod END
    FROM below AS b JOIN pg_catalog.pg_type AS t ON t.oid = b.base_oid WHERE t.typtype = 'd'
), resolved AS (
    SELECT b.* FROM below AS b
    JOIN pg_catalog.pg_type AS t ON t.oid = b.base_oid WHERE t.typtype <> 'd'
)
SELECT asked.position::int, pg_catalog.format_type(asked.oid, asked.typmod),
       coalesce(element_domain.typmod, domain.typmod, asked.typmod),
       CASE WHEN base.typnamespace = 'pg_catalog'::regnamespace THEN base.typname ELSE '' END,
       base.typtype::text,
       CASE WHEN element.oid IS NULL THEN NULL
            WHEN element_base.typnamespace = 'pg_catalog'::regnamespace THEN element_base.typname
            ELSE '' END
FROM unnest(%(oids)s::oid[], %(typmods)s::int[]) WITH ORDINALITY AS asked(oid, typmod, position)
LEFT JOIN resolved AS domain ON domain.domain_oid = asked.oid
JOIN pg_catalog.pg_type AS base ON base.oid = coalesce(domain.base_oid, asked.oid)
LEFT JOIN pg_catalog.pg_type AS element
    ON element.oid = base.typelem AND element.typarray = base.oid
LEFT JOIN resolved AS element_domain ON element_domain.domain_oid = element.oid
LEFT JOIN pg_catalog.pg_type AS element_base
    ON element_base.oid = coalesce(element_domain.base_oid, element.oid)
ORDER BY asked.position;

-- name: keys
-- Primary keys first, then unique indexes whose columns are all NOT NULL, whole and without expressions.
SELECT i.indrelid::bigint, i.indisprimary,
       array_agg(a.attname::text ORDER BY k.position), bool_and(a.attnotnull)
FROM pg_catalog.pg_index AS i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ANY(%(oids)s::oid[]) AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL AND k.position <= i.indnkeyatts
GROUP BY i.indexrelid, i.indrelid, i.indisprimary
HAVING bool_and(a.attnotnull)
ORDER BY i.indrelid, i.indisprimary DESC, count(*), i.indexrelid;

-- name: leaves
-- What holds the rows: a partitioned table's leaves, or the relation itself.
-- On a replica nobody counts writes, so there the mark is empty.
SELECT root.oid::bigint, n.nspname, c.relname, c.relkind::text, c.reltuples::float8,
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) ELSE 0 END
           / current_setting('block_size')::bigint,
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_table_size(c.oid) ELSE 0 END,
       c.relpages, coalesce(pg_relation_filenode(c.oid), 0)::bigint,
       CASE WHEN pg_is_in_recovery() THEN ''
            ELSE concat_ws('.', pg_stat_get_tuples_inserted(c.oid), pg_stat_get_tuples_updated(c.oid),
                           pg_stat_get_tuples_deleted(c.oid)) END,
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
FROM unnest(%(oids)s::oid[]) AS root(oid)
JOIN pg_catalog.pg_class AS rc ON rc.oid = root.oid
CROSS JOIN LATERAL (
    SELECT root.oid AS leaf WHERE rc.relkind <> 'p'
    UNION ALL
    SELECT t.relid FROM pg_partition_tree(CASE WHEN rc.relkind = 'p' THEN root.oid END) AS t
    WHERE t.isleaf AND rc.relkind = 'p' AND t.relid <> root.oid
) AS tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.leaf
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY 1, 2, 3;

-- name: list
-- Ordinary and partitioned tables that are no partitions, outside the system's schemas.
SELECT n.nspname, c.relname
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%%'
ORDER BY 1, 2;

-- name: stats
-- Size of each relation, and what the planner knows of one of its columns. A column of few values
-- has no histogram; its most common values, which are in no order, are then all there is to cut at.
WITH asked AS (
    SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[], %(columns)s::text[])
        WITH ORDINALITY AS a(schema_name, name, column_name, position)
)
SELECT a.position::int, c.reltuples::float8, c.relpages,
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) ELSE 0 END
           / current_setting('block_size')::bigint,
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_table_size(c.oid) ELSE 0 END,
       coalesce(s.histogram_bounds, s.most_common_vals)::text::text[], s.correlation,
       pg_catalog.format_type(t.atttypid, NULL),
       EXISTS (SELECT FROM pg_catalog.pg_index AS i
               WHERE i.indrelid = c.oid AND i.indkey[0] = t.attnum AND i.indisvalid
                 AND i.indpred IS NULL),
       s.histogram_bounds IS NULL, pg_catalog.format_type(t.atttypid, t.atttypmod)
FROM asked AS a
JOIN pg_catalog.pg_namespace AS n ON n.nspname = a.schema_name
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = a.name
LEFT JOIN pg_catalog.pg_attribute AS t
    ON t.attrelid = c.oid AND t.attname = a.column_name AND NOT t.attisdropped
LEFT JOIN pg_catalog.pg_stats AS s
    ON s.schemaname = a.schema_name AND s.tablename = a.name AND s.attname = a.column_name
   AND NOT s.inherited
ORDER BY 1;
