import Bytes
import SubDocument
import Testing
import Vocabulary
import Wire

/// Lookups of several paths in one version.
@Suite struct LookupMachineTests {
    private let live = Version(
        attributes: ["_sync": #"{"rev":"1-a","list":[1,2]}"#, "user": "17"],
        body: #"{"a":{"b":[10,20,30]},"c":"text"}"#
    )

    @Test func everyPathIsAnsweredAlthoughSomeFail() {
        let (status, results) = lookUp(
            [
                .attribute(.get, "_sync.rev"), .attribute(.get, "absent"), Spec(.get, "a.b[1]"),
                Spec(.get, "a.x"), Spec(.exists, "c"), Spec(.exists, "d"), Spec(.getCount, "a.b"),
                Spec(.getCount, ""), Spec(.get, "c.d"),
            ],
            on: live
        )
        #expect(status == .subdocMultiPathFailure)
        #expect(
            results == [
                #""1-a""#, Found(.subdocPathNotFound), "20", Found(.subdocPathNotFound), "",
                Found(.subdocPathNotFound), "3", "2", Found(.subdocPathMismatch),
            ]
        )
    }

    @Test func wholeAttributeAndItsPartsAreRead() {
        let (status, results) = lookUp(
            [
                .attribute(.get, "user"), .attribute(.getCount, "_sync.list"),
                .attribute(.exists, "_sync"), .attribute(.get, "_sync.list[-1]"),
                .attribute(.getCount, "_sync"),
            ],
            on: live
        )
        #expect(status == .success)
        #expect(results == ["17", "2", "", "2", "2"])
    }

    @Test func wholeDocumentIsReadWithoutItsAttributes() {
        let (status, results) = lookUp([Spec(.getDocument)], on: live)
        #expect(status == .success)
        #expect(results == [Found(.success, live.body)])
    }

    @Test func lookupOfSeveralWholeDocumentsCountsAsScan() {
        let whole = Spec(.getDocument)
        let attribute = Spec.attribute(.get, "user")
        let cases: [(specs: [Spec], copies: Int, scans: Bool)] = [
            ([whole], 1, false), ([attribute, whole], 1, false), ([attribute], 0, false),
            ([whole, whole], 2, true), ([Spec](repeating: whole, count: 16), 16, true),
        ]
        for (specs, copies, scans) in cases {
            withRequest(specs) { request in
                #expect(LookupMachine.documentCopies(request) == copies)
                live.withView { #expect(LookupMachine.scans(request, $0) == scans) }
            }
        }
    }

    @Test func documentThatIsNotJSONIsReadAsAWholeOnly() {
        let version = Version(attributes: ["x": "1"], body: "binary", isJSON: false)
        let (status, results) = lookUp(
            [.attribute(.get, "x"), Spec(.getDocument), Spec(.get, "a")],
            on: version
        )
        #expect(status == .subdocMultiPathFailure)
        #expect(results == ["1", "binary", Found(.subdocDocumentNotJSON)])
    }

    @Test func tombstoneHasAttributesAndNoBody() {
        let version = Version(attributes: ["_sync": "{}"], isDeleted: true)
        let all = lookUp([.attribute(.get, "_sync")], on: version)
        #expect(all.status == .subdocSuccessDeleted)
        let some = lookUp([.attribute(.get, "_sync"), Spec(.getDocument)], on: version)
        #expect(some.status == .subdocMultiPathFailureDeleted)
        #expect(some.results == ["{}", Found(.subdocPathNotFound)])
    }

    @Test func lookupOfRevivedDocumentNeedsATombstone() {
        let flags: DocumentFlags = [.accessesDeleted, .revives]
        let read = lookUp([.attribute(.get, "user")], flags, on: live)
        #expect(read.status == .subdocCanOnlyReviveDeleted && read.results == [])
        let version = Version(attributes: ["_sync": "{}"], isDeleted: true)
        let found = lookUp([.attribute(.get, "_sync")], flags, on: version)
        #expect(found.status == .subdocSuccessDeleted && found.results == ["{}"])
    }

    @Test func pathOfUnknownVirtualAttributeFails() {
        let found = lookUp([.attribute(.get, "$other.a"), Spec(.getDocument)], on: live)
        #expect(found.status == .subdocMultiPathFailure)
        #expect(found.results == [Found(.subdocXattrUnknownVirtual), Found(.success, live.body)])
    }

    @Test func virtualDocumentHasEveryField() {
        let fields = [
            ("CAS", #""0x0000000000001122""#), ("vbucket_uuid", #""0x0102030405060708""#),
            ("seqno", #""0x0000000000000009""#), ("revid", #""3""#), ("exptime", "50"),
            ("flags", "7"), ("value_bytes", String(live.body.utf8.count)),
            ("datatype", #"["json","xattr"]"#), ("deleted", "false"), ("last_modified", #""0""#),
        ]
        for (field, text) in fields {
            let (status, results) = lookUp([.attribute(.get, "$document.\(field)")], on: live)
            #expect(status == .success, "\(field)")
            #expect(results == [Found(.success, text)], "\(field)")
        }
        let plain = Version(body: "123456789", isJSON: false)
        let (_, results) = lookUp(
            [
                .attribute(.get, "$document.value_crc32c"),
                .attribute(.get, "$document.datatype"), .attribute(.get, "$document.other"),
                .attribute(.getCount, "$document"),
            ],
            on: plain
        )
        // The check value of CRC-32C.
        #expect(
            results == [#""0xe3069283""#, #"["raw"]"#, Found(.subdocPathNotFound), "11"]
        )
    }

    @Test func virtualAttributesOfVBucketAndKeys() {
        let (status, results) = lookUp(
            [
                .attribute(.get, "$vbucket.HLC.now"), .attribute(.get, "$vbucket"),
                .attribute(.get, "$XTOC"), .attribute(.get, "$XTOC[0]"),
            ],
            on: live
        )
        #expect(status == .success)
        #expect(
            results == [
                #""1000""#, #"{"HLC":{"now":"1000","mode":"real"}}"#, #"["_sync","user"]"#,
                #""_sync""#,
            ]
        )
        #expect(lookUp([.attribute(.get, "$XTOC")], on: Version(body: "{}")).results == ["[]"])
    }

    @Test func clockBehindNewestCASIsLogical() {
        let context = MacroContext(uuid: VBucketUUID(1), seconds: 2_000, isLogical: true)
        let value = live.withView { view in
            let writer = ByteWriter()
            _ = withRequest([.attribute(.get, "$vbucket.HLC")]) {
                LookupMachine.run(
                    $0,
                    on: view,
                    context: context,
                    readsSystemAttributes: true,
                    to: writer
                )
            }
            // The status and the length of the only path precede its value.
            return String(decoding: writer.bytes.dropFirst(6), as: UTF8.self)
        }
        #expect(value == #"{"now":"2000","mode":"logical"}"#)
    }

    @Test func binaryAttributeIsDecoded() {
        let version = Version(attributes: ["b": #""cb-content-base64-encoded:AAEC""#, "n": "1"])
        let (status, results) = lookUp(
            [.attribute(.get, "b", "", .binary), .attribute(.get, "n", "", .binary)],
            on: version
        )
        #expect(status == .subdocMultiPathFailure)
        #expect(results == ["\u{0}\u{1}\u{2}", Found(.subdocFieldNotBinaryValue)])
    }

    @Test func invalidPathFailsAlone() {
        let (_, results) = lookUp([Spec(.get, "a..b"), Spec(.get, "c")], on: live)
        #expect(results == [Found(.subdocPathInvalid), #""text""#])
    }

    @Test func systemAttributesAreDeniedByPathAndNotListed() {
        let version = Version(attributes: ["_sync": "1", "user": "2"], body: "{}")
        let specs: [Spec] = [
            .attribute(.get, "_sync"), .attribute(.exists, "_none.x"), .attribute(.get, "user"),
            .attribute(.get, "$XTOC"), .attribute(.get, "$document.deleted"), Spec(.getDocument),
        ]
        let read = lookUp(specs, on: version, readsSystemAttributes: false)
        #expect(read.status == .subdocMultiPathFailure)
        let denied = Found(.accessDenied)
        #expect(read.results == [denied, denied, "2", #"["user"]"#, "false", "{}"])
        let all = lookUp([.attribute(.get, "$XTOC")], on: version)
        #expect(all.results == [#"["_sync","user"]"#])
    }

    @Test func answerBeyondTheBoundIsTooBig() {
        withRequest([Spec(.getDocument), Spec(.getDocument)]) { request in
            live.withView { view in
                let output = ByteWriter()
                output.append(UInt8(1))
                let bound = 2 * (live.body.utf8.count + 6)
                let status = LookupMachine.run(
                    request,
                    on: view,
                    context: Version.context,
                    readsSystemAttributes: true,
                    to: output,
                    valueBytesMax: bound - 1
                )
                #expect(status == .tooBig)
                #expect(output.bytes == [1])
                let whole = LookupMachine.run(
                    request,
                    on: view,
                    context: Version.context,
                    readsSystemAttributes: true,
                    to: output,
                    valueBytesMax: bound
                )
                #expect(whole == .success)
            }
        }
    }
}
