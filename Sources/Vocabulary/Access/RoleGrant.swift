package import Bytes

/// A role of a user, with the bucket that it is granted for.
package struct RoleGrant: Hashable, Sendable, CodedFields {
    package private(set) var role = Role.admin
    /// Nil for a role of the cluster and for every bucket (`data_reader[*]`).
    package private(set) var bucket: String?

    package init() {}

    /// - Precondition: Only a role that is granted for buckets has a bucket.
    package init(_ role: Role, bucket: String? = nil) {
        precondition(bucket == nil || role.isScoped, "\(role.rawValue) is granted for the cluster.")
        self.role = role
        self.bucket = bucket
    }

    /// Why a text names no role that can be granted.
    package enum TextError: Error, Hashable, Sendable {
        /// The role does not exist, or its parameter is missing, excessive or malformed.
        case malformed
        /// A scope or a collection other than `*`.
        case collections
    }

    /// The grant that a text of the REST API names: `admin`, `data_reader[b]`, `data_reader[*]` or
    /// `data_reader[b:*:*]`.
    ///
    /// - Throws: `TextError` if the text names no role that can be granted.
    package init(parsing text: String) throws(TextError) {
        let name = text.prefix { $0 != "[" }
        guard let role = Role(rawValue: String(name)) else { throw .malformed }
        let parameter = text.dropFirst(name.count)
        guard role.isScoped else {
            guard parameter.isEmpty else { throw .malformed }
            self.init(role)
            return
        }
        guard parameter.first == "[", parameter.last == "]", parameter.count > 2 else {
            throw .malformed
        }
        let parts = parameter.dropFirst().dropLast().split(
            separator: ":",
            omittingEmptySubsequences: false
        )
        guard parts.count <= 3, parts.allSatisfy({ !$0.isEmpty }) else { throw .malformed }
        guard !parts.contains(where: { $0.contains("[") || $0.contains("]") }) else {
            throw .malformed
        }
        guard parts.dropFirst().allSatisfy({ $0 == "*" }) else { throw .collections }
        self.init(role, bucket: parts[0] == "*" ? nil : String(parts[0]))
    }

    /// As the REST API names it.
    package var text: String {
        role.isScoped ? "\(role.rawValue)[\(bucket ?? "*")]" : role.rawValue
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&role, "role")
        try coder.optional(&bucket, "bucket")
        try coder.require(bucket == nil || role.isScoped, "bucket")
    }

    package func allows(_ permission: Permission) -> Bool {
        let first = role.patterns.first { matches($0, permission) }
        return switch first?.operations {
        case nil, .some(.none): false
        case .all: true
        case .only(let operations): operations.contains(permission.operation)
        }
    }

    private func matches(_ pattern: Role.Pattern, _ permission: Permission) -> Bool {
        matches(pattern.owner, permission.owner, isWhole: pattern.path.isEmpty)
            && permission.path.starts(with: pattern.path)
    }

    private func matches(
        _ pattern: Role.Pattern.Owner,
        _ owner: Permission.Owner,
        isWhole: Bool
    ) -> Bool {
        switch (pattern, owner) {
        case (.cluster, .cluster): true
        case (.cluster, _): isWhole
        case (_, .cluster): false
        case (.anyBucket, _): true
        case (.grantedBucket, .bucket(let name)): bucket == nil || bucket == name
        case (.grantedBucket, .anyBucket): true
        case (.grantedBucket, .everyBucket): bucket == nil
        }
    }
}
