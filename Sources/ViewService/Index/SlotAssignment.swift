package import Indexing
package import Persistence

/// A reduction whose partial results an index stores.
package struct SlotDefinition: Hashable, Sendable {
    package enum Kind: UInt8, Hashable, Sendable {
        /// Numeric results for `_sum` and `_stats`; written in the same commit as the rows.
        case numeric = 1
        /// Results of a function in JavaScript; computed by queries and stored afterwards.
        case custom = 2
    }

    package let signature: IndexSignature
    package let kind: Kind
    /// The source of the function, for operators and tools.
    package let source: String

    package init(signature: IndexSignature, kind: Kind, source: String) {
        self.signature = signature
        self.kind = kind
        self.source = source
    }

    /// The slot that `_sum` and `_stats` share.
    ///
    /// `_count` needs none: inner nodes have row counts.
    package static func numeric(_ signature: IndexSignature) -> SlotDefinition {
        SlotDefinition(signature: signature, kind: .numeric, source: "_sum _stats")
    }
}

/// Decides what is to be done for the slots of one index, a step of bounded work at a time.
///
/// - Adding and removing slots touches no row. A slot that is removed keeps its valid results until
///   the last step, so that it may be wanted again meanwhile.
/// - A numeric slot is filled after it was added, after the index was opened, and after an edit
///   that left results out.
package struct SlotAssignment {
    package enum Step {
        case add(SlotDefinition)
        /// Removes a part of the slot's tables, or the last of them and the slot.
        case remove(IndexSlotID)
        /// Stores results that queries computed.
        case store([ComputedPartial], IndexSlotID)
        case fill(IndexSlotID, NumericSlotFill)
    }

    /// The slots in the file.
    private var stored: [IndexSlot]
    /// Nil until the service has set them: no slot is removed before.
    private var wanted: Set<SlotDefinition>?
    private var fills: [IndexSlotID: NumericSlotFill] = [:]
    /// Slots whose fill begins again after the one in progress.
    private var incomplete: Set<IndexSlotID> = []
    private var computed: [IndexSlotID: [ComputedPartial]] = [:]
    private var computedBytes = 0

    /// Bytes of results that wait to be stored.
    ///
    /// More are dropped, and computed again by a query.
    private static let computedBytesMax = 8 << 20
    /// Memory of a result in addition to its content, in bytes.
    private static let resultBytes = 48

    /// The slots of a file that was opened.
    package init(stored: [IndexSlot]) { self.stored = stored }

    /// The slots whose tables a commit of rows updates.
    package var numeric: [IndexSlotID] {
        stored.filter { $0.kind == SlotDefinition.Kind.numeric.rawValue && isWanted($0) }.map(\.id)
    }

    /// The numeric slots whose results are complete.
    package var complete: Set<IndexSlotID> { Set(numeric.filter { fills[$0] == nil }) }

    private func isWanted(_ slot: IndexSlot) -> Bool {
        wanted?.contains { $0.signature.description == slot.signature } ?? true
    }

    private func slot(_ signature: IndexSignature) -> IndexSlot? {
        stored.first { $0.signature == signature.description }
    }

    // MARK: Events

    /// Sets the slots that the index's views need.
    package mutating func want(_ slots: [SlotDefinition]) {
        let before = wanted
        wanted = Set(slots)
        for slot in stored where !isWanted(slot) { computed[slot.id] = nil }
        if computed.isEmpty { computedBytes = 0 }
        for definition in slots where definition.kind == .numeric {
            // Tables of a slot that was not wanted were not updated.
            guard let slot = slot(definition.signature), before?.contains(definition) != true
            else { continue }
            fills[slot.id] = NumericSlotFill()
        }
    }

    /// Keeps results that a query computed, until they are stored.
    package mutating func add(_ results: [ComputedPartial], _ signature: IndexSignature) {
        guard let slot = slot(signature), slot.kind == SlotDefinition.Kind.custom.rawValue,
            isWanted(slot)
        else { return }
        for result in results {
            let bytes = result.result.count + Self.resultBytes
            guard computedBytes + bytes <= Self.computedBytesMax else { return }
            computedBytes += bytes
            computed[slot.id, default: []].append(result)
        }
    }

    /// An edit left out results of a numeric slot.
    package mutating func missed(_ slot: IndexSlotID) {
        if fills[slot] == nil { fills[slot] = NumericSlotFill() } else { incomplete.insert(slot) }
    }

    /// The slot was added to the file.
    package mutating func added(_ slot: IndexSlot) {
        stored.append(slot)
        if slot.kind == SlotDefinition.Kind.numeric.rawValue { fills[slot.id] = NumericSlotFill() }
    }

    /// The slot and the last of its tables were removed.
    package mutating func removed(_ id: IndexSlotID) {
        stored.removeAll { $0.id == id }
        fills[id] = nil
        incomplete.remove(id)
        computed[id] = nil
    }

    /// A fill visited every inner node.
    package mutating func filled(_ id: IndexSlotID) {
        fills[id] = incomplete.remove(id) == nil ? nil : NumericSlotFill()
    }

    /// A step was not committed: what fills hold as completed may not be stored.
    package mutating func stepFailed() {
        for id in fills.keys { fills[id] = NumericSlotFill() }
    }

    // MARK: Steps

    /// The next step; nil if there is nothing to do.
    package mutating func next() -> Step? {
        if let definition = wanted?.first(where: { slot($0.signature) == nil }) {
            return .add(definition)
        }
        if let (id, results) = computed.popFirst() {
            if computed.isEmpty { computedBytes = 0 }
            return .store(results, id)
        }
        for id in numeric {
            if let fill = fills[id] { return .fill(id, fill) }
        }
        return stored.first { !isWanted($0) }.map { .remove($0.id) }
    }
}
