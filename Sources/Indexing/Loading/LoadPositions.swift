package import Bytes
package import Vocabulary

/// The positions of vBuckets that a stored run ends with.
///
/// Layout: for each vBucket its number (2), UUID (8), seqno (8), start (8) and end (8) of the snapshot;
/// big-endian.
package enum LoadPositions {
    package static func append(_ positions: [VBucketID: IndexPosition], to output: ByteWriter) {
        for (vBucket, position) in positions.sorted(by: { $0.key < $1.key }) {
            output.append(bigEndian: vBucket.number)
            output.append(bigEndian: position.uuid.value)
            output.append(bigEndian: position.seqno.value)
            output.append(bigEndian: position.snapshotStart.value)
            output.append(bigEndian: position.snapshotEnd.value)
        }
    }

    /// Decodes positions; nil if they are malformed.
    package static func decode(_ view: ByteView) -> [VBucketID: IndexPosition]? {
        var reader = ByteReader(view)
        var positions: [VBucketID: IndexPosition] = [:]
        while !reader.isAtEnd {
            guard let number = reader.bigEndian(UInt16.self),
                let uuid = reader.bigEndian(UInt64.self),
                let seqno = reader.bigEndian(UInt64.self),
                let start = reader.bigEndian(UInt64.self),
                let end = reader.bigEndian(UInt64.self)
            else { return nil }
            positions[VBucketID(number)] = IndexPosition(
                uuid: VBucketUUID(uuid),
                seqno: Seqno(seqno),
                snapshotStart: Seqno(start),
                snapshotEnd: Seqno(end)
            )
        }
        return positions
    }
}
