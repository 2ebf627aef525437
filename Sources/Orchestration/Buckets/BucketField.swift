package import Vocabulary

/// The fields of a bucket's form.
///
/// The form ignores other names: old and new tools send many that mean nothing here. So what asks for a
/// feature that is not built has to be listed (`UnbuiltSetting`).
package enum BucketField: String, CaseIterable, Sendable {
    case name
    case bucketType
    case ramQuota
    /// The same as `ramQuota`, by which errors name it.
    case ramQuotaMB
    case replicaNumber
    case replicaIndex
    case evictionPolicy
    case flushEnabled
    case passwordless
    case saslPassword
    case numVBuckets
    case durabilityMinLevel
    case maxTTL
    case storageBackend
    case conflictResolutionType
    case autoCompactionDefined
    case purgeInterval

    /// The permission that a change of the field needs beside that of the route; nil for none.
    ///
    /// Both fields let requests read and write documents, which the login that sets them may not be allowed to.
    ///
    /// - Parameter name: The bucket's name.
    /// - Returns: The permission.
    package func permission(bucket name: String) -> Permission? {
        switch self {
        case .passwordless, .saslPassword:
            Permission(.bucket(name), ["password"], operation: "write")
        default: nil
        }
    }
}

extension BucketForm {
    /// The sender of a request that changes a bucket.
    package struct Requester: Sendable {
        /// The login, for events.
        package let name: String
        /// Whether the login has a permission now.
        package let allows: @Sendable (Permission) -> Bool

        package init(name: String, allows: @escaping @Sendable (Permission) -> Bool) {
            self.name = name
            self.allows = allows
        }

        /// The node itself, which may do everything.
        package static let node = Requester(name: "the node") { _ in true }
    }

    /// The fields of a form that change which logins may use the bucket, in the order of `BucketField`.
    ///
    /// A field that only states what is so already changes nothing: old tools send an empty password with
    /// every form.
    ///
    /// - Parameters:
    ///   - parameters: The form.
    ///   - existing: The bucket to be changed; nil for a new one.
    /// - Returns: The fields.
    package static func accessFields(
        of parameters: FormParameters,
        changing existing: BucketSettings?
    ) -> [BucketField] {
        BucketField.allCases.filter { field in
            guard field.permission(bucket: "") != nil, let text = parameters[field.rawValue] else {
                return false
            }
            switch field {
            case .saslPassword: return !text.isEmpty || existing?.password.isEmpty == false
            case .passwordless:
                let present = existing?.passwordless ?? PasswordlessAccess.none
                return passwordless(text) != present
            default: return true
            }
        }
    }
}
