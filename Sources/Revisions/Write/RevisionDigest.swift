package import Bytes
package import SyncWire

/// The names of new revisions, as Sync Gateway computes them (S 1).
///
/// The same edit of the same revision has the same name at every gateway, so that two gateways that
/// receive it make no conflict.
package enum RevisionDigest {
    /// The name of an edit.
    ///
    /// - Parameters:
    ///   - parent: The replaced revision, of a generation below `Int.max`; nil for the first one.
    ///   - canonicalBody: The body as canonical JSON: with `_deleted`, without other special
    ///     members. In the 1.x dialect with `_attachments` as stored; from 2.8 on, Sync Gateway
    ///     leaves them out.
    ///   - md5: The MD5 of bytes, 16 bytes.
    /// - Returns: The name, one generation above the parent's.
    package static func id(
        parent: RevisionID?,
        canonicalBody: ByteView,
        md5: ([UInt8]) -> [UInt8]
    ) -> RevisionID {
        let parentName = parent.map { Array("\($0.generation)-".utf8) + $0.digest } ?? []
        // `RevisionID.bytesMax` fits a byte.
        var input = [UInt8(truncatingIfNeeded: parentName.count)]
        input.reserveCapacity(1 + parentName.count + canonicalBody.count)
        input += parentName
        input += canonicalBody.buffer
        let digest = PackedDigest(isHexadecimal: true, bytes: md5(input)).text
        return RevisionID(generation: (parent?.generation ?? 0) + 1, digest: digest)
    }
}
