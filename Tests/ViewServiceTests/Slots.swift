import Indexing
import Persistence
import ViewService

extension SlotDefinition {
    /// A numeric slot of any name.
    static let numeric = SlotDefinition.numeric(name)

    private static var name: IndexSignature {
        guard let name = IndexSignature(Array("numeric slot, v1".utf8)) else {
            fatalError("a signature has 16 bytes")
        }
        return name
    }
}

extension StoredPartials {
    /// The stored results of a slot, complete or not; nil if the snapshot does not have the slot.
    static func of(
        _ signature: IndexSignature,
        in reads: IndexReads
    ) throws(StorageError) -> StoredPartials? {
        let slot = try reads.slots().first { $0.signature == signature.description }
        return slot.map { StoredPartials(reads, $0.id) }
    }
}
