/// Keys of Sync Gateway's releases that are accepted without effect, in lower case.
///
/// Each has no counterpart: it tunes a cache, a query service or a connection that Divan's gateway does not have,
/// or the process is configured elsewhere. A key that is neither here nor read is unknown.
enum ConfigurationKeys {
    static let file: Set<String> = [
        "adminui", "auth", "bucket_credentials", "channel_index", "cluster_config", "clusterconfig",
        "configserver", "couchbasekeepaliveinterval", "couchbase_keepalive_interval",
        "database_credentials",
        "deploymentid", "disable_persistent_config", "heap_profile_collection_threshold",
        "heap_profile_disable_collection", "hide_product_version", "logfilepath",
        "maxcouchbaseconnections",
        "maxcouchbaseoverflow", "maxfiledescriptors", "max_file_descriptors", "profileinterface",
        "readheadertimeout", "idletimeout", "serverreadtimeout", "serverwritetimeout",
        "skiprunmodevalidation", "slowservercallwarningthreshold", "tlsminversion", "unsupported",
        "bcrypt_cost", "metrics_interface_authentication", "admin_interface_authentication",
        "enable_advanced_auth_dx", "config_upgrade_group_id",
    ]

    static let bootstrap: Set<String> = [
        "ca_cert_path", "config_group_id", "config_update_frequency", "server_tls_skip_verify",
        "use_tls_server", "x509_cert_path", "x509_key_path", "use_xattr_config",
    ]

    static let api: Set<String> = [
        "admin_interface_authentication", "enable_advanced_auth_dx", "hide_product_version",
        "idle_timeout",
        "metrics_interface_authentication", "profile_interface", "read_header_timeout",
        "server_read_timeout", "server_write_timeout",
    ]

    static let https: Set<String> = ["tls_minimum_version"]

    static let logging: Set<String> = [
        "audit", "debug", "error", "info", "stats", "trace", "warn",
    ]

    static let console: Set<String> = [
        "collation_buffer_size", "color_enabled", "enabled", "file_output", "max_age", "rotation",
    ]

    static let replicator: Set<String> = ["blip_compression", "max_concurrent_changes_batches"]

    static let database: Set<String> = [
        "auto_import", "bucket_op_timeout_ms", "cacertpath", "certpath", "changes_request_plus",
        "channel_index", "client_partition_window_secs", "cluster_config", "compact_interval_days",
        "delta_sync", "event_handlers_max", "feed_type", "functions", "graphql",
        "import_backup_old_rev",
        "import_partitions", "index", "javascript_timeout_secs", "keypath", "kv_tls_port",
        "local_doc_expiry_secs", "local_jwt", "logging", "max_concurrent_query_ops",
        "num_index_replicas",
        "query_pagination_limit", "replications", "scopes", "serve_insecure_attachment_types",
        "send_www_authenticate_header", "sgreplicate_enabled",
        "sgreplicate_websocket_heartbeat_secs",
        "slow_query_warning_threshold", "store_legacy_revtree_data", "suspendable", "use_views",
        "user_xattr_key", "version", "updated_at", "created_at", "disable_password_auth",
    ]

    /// Members of `cache`: there is no such cache, but for revisions.
    static let cache: Set<String> = [
        "channel_cache", "channel_cache_expiry", "channel_cache_max_length",
        "channel_cache_min_length",
        "enable_star_channel", "max_num_pending", "max_wait_pending", "max_wait_skipped",
    ]

    static let revisionCache: Set<String> = [
        "insert_on_write", "max_memory_count_mb", "shard_count",
    ]

    static let unsupported: Set<String> = [
        "allow_db_config_env_vars", "api_endpoints", "blip_send_docs_with_channel_removal",
        "connected_client", "dcp_read_buffer", "disable_clean_skipped_query",
        "force_api_forbidden_errors",
        "guest_read_only", "kv_buffer", "oidc_tls_skip_verify",
        "reject_writes_with_skewed_sequence",
        "remote_config_tls_skip_verify", "same_site_cookie", "sgr_tls_skip_verify",
        "use_query_based_resync", "warning_thresholds",
    ]

    static let principal: Set<String> = [
        "all_channels", "channel_since", "collection_access", "explicit_channels", "jwt_channels",
        "jwt_issuer", "jwt_last_updated", "jwt_roles", "roles",
    ]
}
