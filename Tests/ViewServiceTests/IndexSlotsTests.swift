import Indexing
import Persistence
import Testing
import ViewService
import Vocabulary

/// Which slots an index adds, fills and removes, and in which order.
@Suite struct IndexSlotsTests {
    private static let custom = SlotDefinition(
        signature: SlotDefinition.numeric.signature.reversed,
        kind: .custom,
        source: "function (keys, values, rereduce) { return 1; }"
    )

    private static func stored(_ definition: SlotDefinition, _ number: UInt32) -> IndexSlot {
        IndexSlot(
            id: IndexSlotID(number),
            signature: definition.signature.description,
            kind: definition.kind.rawValue,
            source: definition.source
        )
    }

    private static let numericSlot = stored(.numeric, 1)
    private static let customSlot = stored(custom, 2)

    private static func result(bytes: Int) -> ComputedPartial {
        ComputedPartial(
            parent: IndexNodeID(1),
            child: IndexNodeID(2),
            version: 3,
            result: [UInt8](repeating: 0, count: bytes)
        )
    }

    /// The step as a word and a slot's number.
    private static func name(_ step: SlotAssignment.Step?) -> String {
        switch step {
        case nil: "none"
        case .add(let definition): "add \(definition.kind)"
        case .remove(let id): "remove \(id.value)"
        case .store(let results, let id): "store \(results.count) \(id.value)"
        case .fill(let id, _): "fill \(id.value)"
        }
    }

    private static func fill(_ step: SlotAssignment.Step?) -> NumericSlotFill? {
        if case .fill(_, let fill) = step { fill } else { nil }
    }

    @Test func wantedSlotsAreAddedAndNumericOnesFilled() {
        var slots = SlotAssignment(stored: [])
        #expect(Self.name(slots.next()) == "none")
        slots.want([.numeric])
        #expect(Self.name(slots.next()) == "add numeric")
        slots.added(Self.numericSlot)
        #expect(slots.numeric == [IndexSlotID(1)])
        let first = Self.fill(slots.next())
        #expect(first != nil && Self.fill(slots.next()) === first)
        slots.filled(IndexSlotID(1))
        slots.want([.numeric, Self.custom])
        #expect(Self.name(slots.next()) == "add custom")
        slots.added(Self.customSlot)
        #expect(Self.name(slots.next()) == "none")
        #expect(slots.numeric == [IndexSlotID(1)])
    }

    @Test func openedIndexUpdatesItsSlotsAndRemovesNoneBeforeTheyAreSet() {
        var slots = SlotAssignment(stored: [Self.numericSlot, Self.customSlot])
        #expect(slots.numeric == [IndexSlotID(1)])
        #expect(Self.name(slots.next()) == "none")
        slots.want([.numeric])
        #expect(Self.name(slots.next()) == "fill 1")
        slots.filled(IndexSlotID(1))
        #expect(Self.name(slots.next()) == "remove 2")
        slots.removed(IndexSlotID(2))
        #expect(Self.name(slots.next()) == "none")
    }

    @Test func slotThatIsWantedAgainDuringItsRemovalIsFilledAgain() {
        var slots = SlotAssignment(stored: [Self.numericSlot])
        slots.want([.numeric])
        slots.filled(IndexSlotID(1))
        slots.want([])
        #expect(slots.numeric.isEmpty)
        #expect(Self.name(slots.next()) == "remove 1")
        slots.want([.numeric])
        #expect(slots.numeric == [IndexSlotID(1)])
        #expect(Self.name(slots.next()) == "fill 1")
    }

    @Test func slotsSetAgainAreNotFilledAgain() {
        var slots = SlotAssignment(stored: [Self.numericSlot])
        slots.want([.numeric])
        slots.filled(IndexSlotID(1))
        slots.want([.numeric])
        #expect(Self.name(slots.next()) == "none")
    }

    @Test func editThatLeavesResultsOutDuringAFillIsFollowedByAnother() {
        var slots = SlotAssignment(stored: [Self.numericSlot])
        slots.want([.numeric])
        let first = Self.fill(slots.next())
        slots.missed(IndexSlotID(1))
        #expect(Self.fill(slots.next()) === first)
        slots.filled(IndexSlotID(1))
        let second = Self.fill(slots.next())
        #expect(second != nil && second !== first)
        slots.filled(IndexSlotID(1))
        #expect(Self.name(slots.next()) == "none")
        slots.missed(IndexSlotID(1))
        #expect(Self.name(slots.next()) == "fill 1")
    }

    @Test func fillBeginsAgainAfterAStepThatWasNotCommitted() {
        var slots = SlotAssignment(stored: [Self.numericSlot])
        slots.want([.numeric])
        let first = Self.fill(slots.next())
        slots.stepFailed()
        let second = Self.fill(slots.next())
        #expect(second != nil && second !== first)
    }

    @Test func resultsAreKeptForCustomSlotsOfTheFileOnlyAndUpToALimit() {
        var slots = SlotAssignment(stored: [Self.numericSlot])
        slots.add([Self.result(bytes: 1)], SlotDefinition.numeric.signature)
        slots.add([Self.result(bytes: 1)], Self.custom.signature)
        #expect(Self.name(slots.next()) == "none")
        slots.added(Self.customSlot)
        let large = Self.result(bytes: 3 << 20)
        slots.add([large, large, large], Self.custom.signature)
        #expect(Self.name(slots.next()) == "store 2 2")
        #expect(Self.name(slots.next()) == "none")
        slots.add([large], Self.custom.signature)
        #expect(Self.name(slots.next()) == "store 1 2")
        slots.add([large], Self.custom.signature)
        slots.want([.numeric])
        slots.filled(IndexSlotID(1))
        #expect(Self.name(slots.next()) == "remove 2")
    }
}

extension IndexSignature {
    fileprivate var reversed: IndexSignature { IndexSignature(bytes.reversed()) ?? self }
}
