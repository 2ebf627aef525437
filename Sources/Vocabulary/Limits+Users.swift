/// Bounds of local users, which every node keeps in memory as part of the agreed state.
extension Limits {
    /// Local users of a cluster: one for each application, not one for each person that it serves.
    package static let usersMax = 1_000
    /// Bytes of a user's id, as in Couchbase Server.
    package static let userIDBytesMax = 128
    /// Bytes of a user's full name.
    package static let userNameBytesMax = 256
    /// Bytes of a user's stored keys: those of three mechanisms need about 700.
    package static let userCredentialsBytesMax = 4 << 10
    /// Bytes that all local users may take, each with its roles and `userOverheadBytes`: the agreed
    /// state is encoded and sent as a whole.
    package static let usersBytesMax = 2 << 20
    /// Bytes that count for a user besides its texts and keys.
    package static let userOverheadBytes = 64
}
