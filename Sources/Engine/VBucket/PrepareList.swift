internal import Bytes
internal import Vocabulary

/// The writes of a vBucket that are neither committed nor aborted.
///
/// - At most one of each key, in the order of their seqnos.
/// - The list owns the blocks of its prepares until they are completed.
struct PrepareList {
    struct Prepare {
        let item: Item
        let seqno: Seqno
        let hash: UInt64
        /// Another copy made the prepare, or this copy before a restart: it may have been
        /// committed.
        var isInherited: Bool
    }

    /// A key, whose bytes lie in the prepare's own block.
    private struct Name: Hashable {
        let key: ByteView
        let hash: UInt64

        static func == (one: Name, other: Name) -> Bool {
            one.hash == other.hash && one.key.equals(other.key)
        }

        func hash(into hasher: inout Hasher) { hasher.combine(hash) }
    }

    private(set) var list: [Prepare] = []
    private(set) var inheritedCount = 0
    private var seqnos: [Name: Seqno] = [:]

    var isEmpty: Bool { list.isEmpty }

    /// The prepare of a key.
    func find(_ key: ByteView, _ hash: UInt64) -> Prepare? {
        seqnos[Name(key: key, hash: hash)].flatMap(find)
    }

    /// The prepare at a seqno.
    func find(_ seqno: Seqno) -> Prepare? { index(of: seqno).map { list[$0] } }

    mutating func insert(_ item: Item, hash: UInt64, isInherited: Bool) {
        let seqno = item.seqno
        precondition(list.last.map { $0.seqno < seqno } ?? true, "prepares come in order")
        let before = seqnos.updateValue(seqno, forKey: Name(key: item.key, hash: hash))
        precondition(before == nil, "a key has one prepare")
        let prepare = Prepare(item: item, seqno: seqno, hash: hash, isInherited: isInherited)
        list.append(prepare)
        if isInherited { inheritedCount += 1 }
    }

    /// Removes a prepare; the caller then owns its block.
    mutating func remove(_ seqno: Seqno) {
        guard let index = index(of: seqno) else {
            preconditionFailure("only a prepare in the list is removed")
        }
        let prepare = list.remove(at: index)
        seqnos[Name(key: prepare.item.key, hash: prepare.hash)] = nil
        if prepare.isInherited { inheritedCount -= 1 }
    }

    mutating func removeAll() { self = PrepareList() }

    mutating func inheritAll() {
        for index in list.indices { list[index].isInherited = true }
        inheritedCount = list.count
    }

    private func index(of seqno: Seqno) -> Int? {
        var (low, high) = (0, list.count)
        while low < high {
            let middle = (low + high) / 2
            if list[middle].seqno < seqno { low = middle + 1 } else { high = middle }
        }
        return low < list.count && list[low].seqno == seqno ? low : nil
    }
}
