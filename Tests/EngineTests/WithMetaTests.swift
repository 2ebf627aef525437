import Bytes
import Engine
import Testing
import Vocabulary

/// Versions of another cluster, with their CAS and revision.
@Suite struct WithMetaTests {
    private static let end: UInt32 = 1_700_001_000
    /// The version that is present before each request.
    private static let present = DocumentMeta(cas: CAS(100), revision: 5, flags: 1, expiry: end)

    private func store(
        _ document: AttributedDocument,
        _ meta: DocumentMeta,
        cas: CAS = .none,
        _ options: WithMetaRequest.Options = []
    ) -> String {
        viewing(Array("v".utf8)) { value in
            document.run { core, key, hash, turn in
                let request = WithMetaRequest(
                    key: key,
                    hash: hash,
                    value: meta.isDeleted ? .empty : value,
                    meta: meta,
                    options: options
                )
                guard var request else { return .refused(.notStored) }
                request.cas = cas
                return core.storeWithMeta(request, turn)
            }
        }
    }

    @Test func firstVersionKeepsItsMetadata() throws {
        let document = try AttributedDocument()
        #expect(store(document, Self.present) == "document[]v")
        var expected = Self.present
        expected.seqno = Seqno(1)
        #expect(document.meta == expected && document.isConsistent)
    }

    @Test func conflictIsResolvedByRevisionThenCASThenExpiryThenFlags() throws {
        let end = Self.end
        let cases: [(revision: UInt64, cas: UInt64, expiry: UInt32, flags: UInt32, wins: Bool)] = [
            (6, 1, 0, 0, true), (4, 999, end + 1, 9, false),
            (5, 101, 0, 0, true), (5, 99, end + 1, 9, false),
            (5, 100, end + 1, 0, true), (5, 100, end - 1, 9, false),
            (5, 100, end, 2, true), (5, 100, end, 0, false),
            (5, 100, end, 1, false),
        ]
        for (revision, cas, expiry, flags, wins) in cases {
            for isDeleted in [false, true] {
                let document = try AttributedDocument()
                _ = store(document, Self.present)
                let meta = DocumentMeta(
                    cas: CAS(cas),
                    revision: revision,
                    flags: flags,
                    expiry: expiry,
                    isDeleted: isDeleted
                )
                let isDecidedEarlier = revision != 5 || cas != 100
                let isStored = wins && (!isDeleted || isDecidedEarlier)
                let kind = isDeleted ? "tombstone[]" : "document[]v"
                #expect(
                    store(document, meta) == (isStored ? kind : "exists"),
                    "\(revision) \(cas) \(expiry) \(flags) \(isDeleted)"
                )
                #expect(document.isConsistent)
            }
        }
    }

    @Test func tombstoneWinsOverOlderVersionsAndKeepsItsTimeOfDeletion() throws {
        let document = try AttributedDocument()
        var deletion = Self.present
        deletion.isDeleted = true
        #expect(store(document, deletion) == "tombstone[]")
        #expect(document.meta?.expiry == document.stage.seconds)
        #expect(document.meta?.revision == 5 && document.meta?.cas == CAS(100))
        var older = Self.present
        older.revision = 4
        #expect(store(document, older) == "exists")
        older.revision = 6
        #expect(store(document, older) == "document[]v")
    }

    @Test func requestMaySkipConflictResolutionAndGetNewCAS() throws {
        let document = try AttributedDocument(.plain)
        var old = Self.present
        old.revision = 1
        #expect(store(document, old) == "exists")
        #expect(store(document, old, [.skipsConflictResolution]) == "document[]v")
        #expect(document.meta?.revision == 1 && document.meta?.cas == CAS(100))
        let before = document.stage.turn.wallNanoseconds & ~0xffff
        let options: WithMetaRequest.Options = [.skipsConflictResolution, .regeneratesCAS]
        #expect(store(document, old, options) == "document[]v")
        #expect(document.meta.map { $0.cas.value >= before } == true)
    }

    @Test func conditionsOfTheRequestAreChecked() throws {
        let document = try AttributedDocument()
        #expect(store(document, Self.present, cas: CAS(7)) == "notFound")
        #expect(store(document, Self.present, [.adds]) == "document[]v")
        var next = Self.present
        next.revision = 6
        #expect(store(document, next, [.adds]) == "exists")
        #expect(store(document, next, cas: CAS(7)) == "exists")
        #expect(store(document, next, cas: CAS(100)) == "document[]v")
    }

    @Test func laterWritesContinueCASAndRevision() throws {
        let document = try AttributedDocument()
        let future = document.stage.turn.wallNanoseconds + 1_000_000_000_000
        let meta = DocumentMeta(cas: CAS(future), revision: 1 << 40)
        #expect(store(document, meta) == "document[]v")
        #expect(document.store(Array("9".utf8)) == "document[]9")
        #expect(document.meta.map { $0.cas.value > future } == true)
        #expect(document.meta?.revision == 1 << 40 + 1)
    }

    @Test func casOrRevisionWithoutSuccessorIsNotStored() throws {
        let document = try AttributedDocument()
        let invalid: [(cas: UInt64, revision: UInt64)] = [
            (0, 1), (.max, 1), (1 << 63, 1), (1, 1 << 48),
        ]
        for (cas, revision) in invalid {
            let meta = DocumentMeta(cas: CAS(cas), revision: revision)
            #expect(store(document, meta) == "notStored", "\(cas) \(revision)")
        }
    }
}
