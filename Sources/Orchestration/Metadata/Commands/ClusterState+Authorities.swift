/// The authorities that operators load, for the certificates of nodes and of clients.
extension ClusterState {
    /// Bytes of all certificates of authorities that operators may load: they are in each snapshot.
    package static let authorityBytesMax = 1 << 20

    mutating func change(_ change: AuthorityChange) -> ClusterOutcome {
        var (authorities, last) = (loadedAuthorities, lastAuthority)
        if change.removed != 0 {
            guard let index = authorities.firstIndex(where: { $0.id == change.removed }) else {
                return .refused(.authorityUnknown)
            }
            authorities.remove(at: index)
        }
        for added in change.added {
            // The same certificate again: only its file may be another one.
            if let index = authorities.firstIndex(where: { $0.certificate == added.certificate }) {
                authorities[index].host = added.host
                authorities[index].file = added.file
                continue
            }
            last += 1
            var record = added
            record.id = last
            authorities.append(record)
        }
        let bytes = authorities.reduce(0) { $0 + $1.certificate.count }
        guard bytes <= Self.authorityBytesMax else { return .refused(.authoritiesTooLarge) }
        (loadedAuthorities, lastAuthority) = (authorities, last)
        return .applied([.settingsChanged])
    }
}
