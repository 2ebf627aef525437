import Bytes
import Testing
import ViewService
import Vocabulary

/// Which definition of a changed view answers, and what a node stores of it.
@Suite struct ViewSuccessionTests {
    /// A view whose map function is this text.
    private static func view(
        _ map: String,
        named name: String = "a",
        _ reduce: ViewDefinition.Reduce? = nil
    ) -> ViewDefinition {
        ViewDefinition(designDocument: "d", view: name, map: map, reduce: reduce)
    }

    private static func succession(after steps: [Step]) -> ViewSuccession {
        var succession = ViewSuccession()
        var current: [ViewDefinition] = []
        var number: UInt32 = 0
        func define(_ map: String) {
            number += 1
            current = [view(map)]
            // The digest of the text.
            let revision = DocumentRevision(number: number, digest: UInt32(map) ?? 0)
            succession.adopt(current, ["d": revision])
        }
        for step in steps {
            switch step {
            case .define(let map): define(map)
            case .delete:
                (current, number) = ([], 0)
                succession.adopt(current, [:])
            case .makeAnew(let map):
                number = 0
                define(map)
            case .restart:
                let bytes = SuccessionFiles.encode(succession)
                succession = decode(bytes) ?? ViewSuccession()
            case .settle(let map): succession.markComplete(view(map), among: current)
            }
        }
        return succession
    }

    enum Step {
        case define(String)
        case delete
        /// The node adopts a deletion and a new document with this map function in one step.
        case makeAnew(String)
        /// The node reads what it has stored.
        case restart
        /// The index of this map function is complete on all nodes.
        case settle(String)
    }

    struct Case: CustomTestStringConvertible {
        let name: String
        let steps: [Step]
        /// The map function of the current definition, and that of the previous one.
        let current: String
        let previous: String?

        var testDescription: String { name }
    }

    static let cases = [
        Case(name: "new view", steps: [.define("1")], current: "1", previous: nil),
        Case(
            name: "view that is changed before it was complete",
            steps: [.define("1"), .define("2")],
            current: "2",
            previous: nil
        ),
        Case(
            name: "changed view",
            steps: [.define("1"), .settle("1"), .define("2")],
            current: "2",
            previous: "1"
        ),
        Case(
            name: "second change before the first is complete",
            steps: [.define("1"), .settle("1"), .define("2"), .define("3")],
            current: "3",
            previous: "1"
        ),
        Case(
            name: "late report of the definition in the middle",
            steps: [.define("1"), .settle("1"), .define("2"), .define("3"), .settle("2")],
            current: "3",
            previous: "1"
        ),
        Case(
            name: "changed view that is complete",
            steps: [.define("1"), .settle("1"), .define("2"), .settle("2")],
            current: "2",
            previous: nil
        ),
        Case(
            name: "definition that returns",
            steps: [.define("1"), .settle("1"), .define("2"), .define("1")],
            current: "1",
            previous: nil
        ),
        Case(
            name: "view that is deleted and made again",
            steps: [.define("1"), .settle("1"), .delete, .define("2")],
            current: "2",
            previous: nil
        ),
        Case(
            name: "view that is deleted and made again in one step",
            steps: [.define("1"), .settle("1"), .makeAnew("2")],
            current: "2",
            previous: nil
        ),
        Case(
            name: "changed view that is deleted and made again in one step",
            steps: [.define("1"), .settle("1"), .define("2"), .makeAnew("3")],
            current: "3",
            previous: nil
        ),
        Case(
            name: "view that is deleted and made again while the node is down",
            steps: [.define("1"), .settle("1"), .restart, .makeAnew("2")],
            current: "2",
            previous: nil
        ),
        Case(
            name: "view that is changed while the node is down",
            steps: [.define("1"), .settle("1"), .restart, .define("2")],
            current: "2",
            previous: "1"
        ),
        Case(
            name: "change after the document was made again in one step",
            steps: [
                .define("1"), .settle("1"), .makeAnew("2"), .settle("2"), .define("3"),
            ],
            current: "3",
            previous: "2"
        ),
    ]

    @Test(arguments: cases)
    func previousDefinitionIsTheLastCompleteOne(_ test: Case) {
        let succession = Self.succession(after: test.steps)
        let current = Self.view(test.current)
        #expect(succession.previous(of: current)?.map == test.previous)
        let isSettled = succession.isSettled(current)
        #expect(!isSettled || test.previous == nil)
    }

    @Test func changeOfTheReduceFunctionIsCompleteAtOnce() {
        var succession = ViewSuccession([Self.view("1", .sum)])
        let changed = Self.view("1", .custom("f"))
        succession.adopt([changed], [:])
        #expect(succession.isSettled(changed) && succession.previous(of: changed) == nil)
        #expect(succession.complete.values.map(\.reduce) == [.custom("f")])
        // The previous definition answers as a whole, with its own reduce function.
        let other = Self.view("2", .count)
        succession.adopt([other], [:])
        #expect(succession.previous(of: other) == changed)
    }

    @Test func documentThatIsMadeAgainEndsOnlyItsOwnDefinitions() {
        func revision(_ number: UInt32, _ digest: UInt32) -> DocumentRevision {
            DocumentRevision(number: number, digest: digest)
        }
        let other = ViewDefinition(designDocument: "e", view: "a", map: "1")
        let changed = ViewDefinition(designDocument: "e", view: "a", map: "2")
        var succession = ViewSuccession(
            [Self.view("1"), Self.view("5", named: "b"), other],
            revisions: ["d": revision(4, 1), "e": revision(4, 1)]
        )
        let (new, same) = (Self.view("2"), Self.view("5", named: "b"))
        succession.adopt([new, same, changed], ["d": revision(4, 2), "e": revision(5, 2)])
        #expect(succession.previous(of: new) == nil && !succession.isSettled(new))
        #expect(succession.isSettled(same), "its index is complete")
        #expect(succession.previous(of: changed) == other)
    }

    @Test func viewsThatShareAnIndexAreCompleteTogether() {
        var succession = ViewSuccession()
        let views = [
            Self.view("1"), Self.view("1", named: "b", .count), Self.view("2", named: "c"),
        ]
        succession.adopt(views, [:])
        succession.markComplete(views[0], among: views)
        #expect(views.map(succession.isSettled) == [true, true, false])
    }

    // MARK: Stored

    private static let stored = ViewSuccession(
        [
            view("function (doc) { emit(doc.n); }"), view("é", named: "b", .count),
            view("2", named: "c", .sum), view("3", named: "d", .stats),
            view("4", named: "e", .custom("function () { return 1; }")),
            ViewDefinition(designDocument: "e", view: "a", map: "", indexesTombstones: true),
        ],
        revisions: [
            "d": DocumentRevision(number: 7, digest: 0xffff_ffff),
            "e": DocumentRevision(number: 1, digest: 0),
        ]
    )

    private static func decode(_ bytes: [UInt8]) -> ViewSuccession? {
        bytes.withUnsafeBytes { SuccessionFiles.decode(ByteView($0)) }
    }

    @Test func storedDefinitionsAreReadAgain() {
        #expect(Self.decode(SuccessionFiles.encode(Self.stored)) == Self.stored)
        #expect(Self.decode(SuccessionFiles.encode(ViewSuccession())) == ViewSuccession())
    }

    @Test func fileOfAnotherFormatHasNoDefinitions() {
        var bytes = Array(SuccessionFiles.encode(Self.stored).dropLast(4))
        for format in [0, 2, 3] as [UInt8] {
            bytes.replaceSubrange(4..<8, with: [0, 0, 0, format])
            let output = ByteWriter()
            output.append(bytes)
            output.append(bigEndian: CRC32.checksum(output.view))
            #expect(Self.decode(output.bytes) == nil)
        }
    }

    @Test func damagedFileHasNoDefinitions() {
        let bytes = SuccessionFiles.encode(Self.stored)
        #expect(Self.decode([]) == nil)
        for length in stride(from: 0, to: bytes.count, by: 7) {
            #expect(Self.decode(Array(bytes.prefix(length))) == nil)
        }
        for place in stride(from: 0, to: bytes.count, by: 5) {
            var damaged = bytes
            damaged[place] ^= 0x10
            #expect(Self.decode(damaged) == nil)
        }
    }
}
