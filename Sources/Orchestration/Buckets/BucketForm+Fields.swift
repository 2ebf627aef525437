internal import Vocabulary

/// Validates the fields with a fixed set of values.
extension BucketForm {
    mutating func validateReplicas() {
        if let text = self[.replicaNumber] {
            if let replicas = FormParameters.number(text), replicas <= 3 {
                settings.replicas = Int(replicas)
            } else {
                refuse("replicaNumber", "The number of replicas is 0, 1, 2 or 3")
            }
        }
        // Clients always send this. There are no replica indexes, so it has no effect, and REST shows
        // false.
        guard let text = self[.replicaIndex] else { return }
        if settings.type == .ephemeral {
            refuse("replicaIndex", "An ephemeral bucket has no replica index")
        } else if Self.flag(text) == nil {
            refuse("replicaIndex", "replicaIndex is 0 or 1")
        }
    }

    mutating func validateEviction() {
        let isPersistent = settings.type == .persistent
        let allowed: [EvictionPolicy] =
            isPersistent ? [.valueOnly, .fullEviction] : [.noEviction, .nruEviction]
        guard let text = self[.evictionPolicy] else {
            if isNew { settings.evictionPolicy = allowed[0] }
            return
        }
        guard let policy = EvictionPolicy(rawValue: text), allowed.contains(policy) else {
            let names = allowed.map(\.rawValue).joined(separator: " or ")
            let kind = isPersistent ? "a couchbase" : "an ephemeral"
            return refuse("evictionPolicy", "The eviction policy of \(kind) bucket is \(names)")
        }
        if !isNew, settings.type == .ephemeral, policy != settings.evictionPolicy {
            return refuse(
                "evictionPolicy",
                "The eviction policy of an ephemeral bucket cannot be changed"
            )
        }
        settings.evictionPolicy = policy
    }

    mutating func validateFlags() {
        if let text = self[.flushEnabled] {
            if let flag = Self.flag(text) {
                settings.flushEnabled = flag
            } else {
                refuse("flushEnabled", "flushEnabled is 0 or 1")
            }
        }
        if let text = self[.passwordless] {
            if let access = Self.passwordless(text) {
                settings.passwordless = access
            } else {
                refuse("passwordless", "passwordless is 0, 1 or network")
            }
        }
    }

    /// The password for logins with the bucket's name; an empty one removes it.
    mutating func validatePassword() {
        if let text = self[.saslPassword] {
            if text.isEmpty {
                settings.password = []
            } else if settings.passwordless != .none {
                refuse("saslPassword", "A bucket without a password (passwordless) has none")
            } else {
                settings.password = ground.password
            }
        }
        if settings.passwordless != .none { settings.password = [] }
    }

    mutating func validateVBuckets() {
        guard let text = self[.numVBuckets] else { return }
        guard let number = FormParameters.number(text),
            let count = Limits.vBucketCounts.first(where: { UInt64($0) == number })
        else {
            let counts = Limits.vBucketCounts.map { "\($0)" }.joined(separator: ", ")
            return refuse("numVBuckets", "The number of vBuckets is one of \(counts)")
        }
        if isNew {
            settings.vBuckets = count
        } else if count != settings.vBuckets {
            // Clients map keys to vBuckets by this number and do not expect it to change.
            refuse("numVBuckets", "A bucket's number of vBuckets cannot be changed")
        }
    }

    /// Refuses a minimum durability that the bucket can never reach: every write would fail.
    mutating func validateDurability() {
        let levels = settings.type == .persistent ? DurabilityLevel.all : [.majority]
        if let text = self[.durabilityMinLevel] {
            let level = levels.first { $0.name == text }
            guard level != nil || text == DurabilityLevel.noneName else {
                let names = [DurabilityLevel.noneName] + levels.map(\.name)
                return refuse(
                    "durabilityMinLevel",
                    "The minimum durability is one of \(names.joined(separator: ", "))"
                )
            }
            settings.minimumDurability = level
        }
        guard let level = settings.minimumDurability else { return }
        if settings.replicas == 3 {
            refuse(
                "durability_min_level",
                "A minimum durability is not possible with 3 replicas"
            )
        } else if self[.durabilityMinLevel] != nil, settings.replicas > 0,
            ground.state.activeNodes.count < 2
        {
            refuse(
                "durability_min_level",
                "There are not enough data nodes for a minimum durability of \(level.name)"
            )
        }
    }

    mutating func validateOptions() {
        if let text = self[.maxTTL] {
            if let seconds = FormParameters.number(text), seconds <= UInt64(Int32.max) {
                settings.maxTTL = UInt32(seconds)
            } else {
                refuse("maxTTL", "The maximum time to live is 0 to \(Int32.max) seconds")
            }
        }
        // The following settings would have no effect, so the form refuses them.
        // Tools send magma by default. The only storage here is neither; REST shows the name that
        // all clients know.
        if let text = self[.storageBackend], !["couchstore", "magma"].contains(text) {
            refuse("storageBackend", "The storage backend is couchstore or magma")
        }
        if let text = self[.conflictResolutionType], text != "seqno" {
            refuse("conflictResolutionType", Self.flaw(ofConflictResolution: text))
        }
        if let text = self[.autoCompactionDefined], Self.flag(text) != false {
            refuse(
                "autoCompactionDefined",
                "A bucket has no compaction settings of its own; the cluster's settings apply"
            )
        }
        validatePurgeInterval()
        errors += UnbuiltSetting.flaws(of: parameters, UnbuiltSetting.ofBuckets)
    }

    /// Clients recognise these errors by their texts, which are those of editions without the types.
    private static func flaw(ofConflictResolution type: String) -> String {
        switch type {
        case "lww": "Conflict resolution type 'lww' is supported only in enterprise edition"
        case "custom":
            "Conflict resolution type 'custom' is supported only with developer preview enabled"
        default: "Conflict resolution type must be 'seqno' or 'lww' or 'custom'"
        }
    }

    /// Accepts the time that tombstones are kept for in any case.
    private mutating func validatePurgeInterval() {
        guard let text = self[.purgeInterval] else { return }
        let isEphemeral = settings.type == .ephemeral
        let hours =
            isEphemeral
            ? UInt64(Limits.ephemeralPurgeSeconds) / 3_600
            : UInt64(ground.state.settings.purgeIntervalHours)
        guard Double(text) != Double(hours) / 24 else { return }
        let whose = isEphemeral ? "ephemeral buckets" : "the cluster"
        refuse(
            "purgeInterval",
            "A bucket has no purge interval of its own: that of \(whose) is \(hours / 24) days"
        )
    }

    /// From where a value of `passwordless` admits clients; nil for another text.
    static func passwordless(_ text: String) -> PasswordlessAccess? {
        if text == "network" { return .network }
        return flag(text).map { $0 ? .loopback : .none }
    }

    static func flag(_ text: String) -> Bool? {
        switch text {
        case "0", "false": false
        case "1", "true": true
        default: nil
        }
    }
}
