/// The privileges of one connection in one bucket over the memcached protocol, by the names of
/// Couchbase's KV engine.
///
/// Derived from permissions (`Grants.privileges`), so that the REST API and the memcached protocol
/// cannot disagree.
package struct Privileges: OptionSet, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    package static let read = Privileges(rawValue: 1 << 0)
    package static let insert = Privileges(rawValue: 1 << 1)
    package static let upsert = Privileges(rawValue: 1 << 2)
    package static let delete = Privileges(rawValue: 1 << 3)
    /// Reading metadata, also of deleted documents.
    package static let metaRead = Privileges(rawValue: 1 << 4)
    /// Writing a document with the metadata of another cluster.
    package static let metaWrite = Privileges(rawValue: 1 << 5)
    /// Streaming changes: DCP and TAP.
    package static let dcpProducer = Privileges(rawValue: 1 << 6)
    package static let stats = Privileges(rawValue: 1 << 7)
    package static let flush = Privileges(rawValue: 1 << 8)
    /// Reading extended attributes whose name begins with `_`.
    package static let systemXattrRead = Privileges(rawValue: 1 << 9)
    /// Writing extended attributes whose name begins with `_`.
    package static let systemXattrWrite = Privileges(rawValue: 1 << 10)
    package static let all = Privileges(permissions.map(\.0))

    /// The permission that grants each privilege: the path below the bucket and the operation.
    static let permissions: [(Privileges, path: [String], operation: String)] = [
        (.read, ["data", "docs"], "read"),
        (.insert, ["data", "docs"], "insert"),
        (.upsert, ["data", "docs"], "upsert"),
        (.delete, ["data", "docs"], "delete"),
        (.metaRead, ["data", "meta"], "read"),
        (.metaWrite, ["data", "meta"], "write"),
        (.dcpProducer, ["data", "dcp"], "read"),
        (.stats, ["stats"], "read"),
        (.flush, [], "flush"),
        (.systemXattrRead, ["data", "sxattr"], "read"),
        (.systemXattrWrite, ["data", "sxattr"], "write"),
    ]
}
