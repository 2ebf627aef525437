import Bytes
import SyncWire
import Testing

@Suite struct MultipartReaderTests {
    struct Part: Equatable {
        var fields: [String]
        var body: String
        var isComplete = false
    }

    private func read(
        _ text: String,
        boundary: String = "b",
        piece: Int,
        finishes: Bool = true
    ) throws -> [Part] {
        let reader = try MultipartReader(boundary: boundary)
        var parts: [Part] = []
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: piece) {
            try view(Array(bytes[start..<min(start + piece, bytes.count)])) { chunk in
                try reader.read(chunk) { event in
                    switch event {
                    case .part(let headers):
                        parts.append(
                            Part(fields: headers.fields.map { "\($0.name)=\($0.value)" }, body: "")
                        )
                    case .data(let data): parts[parts.count - 1].body += data.text
                    case .partEnd: parts[parts.count - 1].isComplete = true
                    }
                }
            }
        }
        if finishes { try reader.finish() }
        return parts
    }

    @Test(
        arguments: [
            ("--b--", []), ("preamble\r\n--b--epilogue", []),
            ("--b\r\n\r\nx\r\n--b--\r\n", [Part(fields: [], body: "x", isComplete: true)]),
            (
                "--b\r\nA: 1\r\nB-c:2 \r\n\r\nx\r\ny\r\n--b--",
                [Part(fields: ["A=1", "B-c=2"], body: "x\r\ny", isComplete: true)]
            ),
            // Empty bodies, with and without a line end of their own.
            (
                "--b\r\nA: 1\r\n\r\n\r\n--b\r\nA: 2\r\n\r\n--b--",
                [
                    Part(fields: ["A=1"], body: "", isComplete: true),
                    Part(fields: ["A=2"], body: "", isComplete: true),
                ]
            ),
            (
                "--b \t\r\nA: 1\r\n  2\r\n\r\n-\r\n--\r\n--c\r\n--bb\r\n--b-\r\n--b--",
                [Part(fields: ["A=1 2"], body: "-\r\n--\r\n--c\r\n--bb\r\n--b-", isComplete: true)]
            ),
            ("--b\r\n\r\n\r\r\n\r\n--b--", [Part(fields: [], body: "\r\r\n", isComplete: true)]),
        ] as [(String, [Part])]
    ) func partsDoNotDependOnChunks(text: String, expected: [Part]) throws {
        for piece in 1...text.utf8.count {
            #expect(try read(text, piece: piece) == expected)
        }
    }

    @Test(arguments: [
        "", "--b", "--b\r\n", "--b\r\nA: 1\r\n\r\nbody", "--b\r\nA: 1\r\n\r\nbody\r\n--b", "x--b--",
    ])
    func truncatedMultipartIsRefused(text: String) {
        for piece in [1, 3, 100] {
            #expect(throws: MultipartFailure.cutShort) { try read(text, piece: piece) }
        }
    }

    @Test func invalidHeadersAreRefused() {
        for line in ["A", ": x", "A b: x", "\u{7f}: x"] {
            #expect(throws: MultipartFailure.badHeader) {
                try read("--b\r\n\(line)\r\n\r\n\r\n--b--", piece: 5)
            }
        }
        let long = "--b\r\nA: " + String(repeating: "x", count: 17 << 10)
        #expect(throws: MultipartFailure.headersTooLarge) { try read(long, piece: 100) }
        #expect(throws: MultipartFailure.headersTooLarge) {
            try read(long + "\r\n\r\n", piece: 1 << 20)
        }
        let many = "--b\r\n" + String(repeating: "A: 1\r\n", count: 65) + "\r\n"
        #expect(throws: MultipartFailure.headersTooLarge) { try read(many, piece: 100) }
        let parts = String(repeating: "--b\r\n\r\n\r\n", count: 10_001)
        #expect(throws: MultipartFailure.tooManyParts) { try read(parts, piece: 1_000) }
    }

    @Test func boundariesAreChecked() {
        for boundary in ["", String(repeating: "b", count: 71), "b ", "b\"", "b\r\n", "bö", "b;"] {
            #expect(throws: MultipartFailure.badBoundary) {
                try MultipartReader(boundary: boundary)
            }
        }
        #expect(MultipartReader.isBoundary(String(repeating: "b", count: 70)))
        #expect(MultipartReader.isBoundary("a b'()+_,-./:=?"))
    }

    @Test func dataBeforeThePartEndIsPassedOnAtOnce() throws {
        let parts = try read("--b\r\n\r\nhello\rworld", piece: 3, finishes: false)
        #expect(parts == [Part(fields: [], body: "hello\rworld")])
    }
}

@Suite struct MultipartWriterTests {
    private static let json =
        #"{"_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8=","digest":"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=","length":5,"revpos":1}},"_id":"att1","_rev":"1-4af538dccddc1de94d93b24764491400","_revisions":{"ids":["4af538dccddc1de94d93b24764491400"],"start":1},"owner":"jane","tag":"public"}"#

    private func related(_ boundary: String, agent: String? = nil, isNested: Bool = false) -> String
    {
        written { output in
            var writer = MultipartWriter(boundary: boundary)
            writer.beginPart(.document, to: output)
            output.append(text: Self.json)
            if isNested { return writer.endNested(to: output) }
            writer.end(agent: agent, to: output)
        }
    }

    @Test func recordedDocumentIsWritten() {
        let boundary = "2a247739f0e5da0d19c855fba69dafd89b490a4747e7591b9813a310b7c6"
        let text = related(boundary)
        #expect(
            text
                == "--\(boundary)\r\nContent-Type: application/json\r\n\r\n\(Self.json)\r\n--\(boundary)--\r\n"
        )
        #expect(text.utf8.count == 462)
        #expect(
            MultipartWriter(boundary: boundary).contentType("related")
                == "multipart/related; boundary=\"\(boundary)\""
        )
    }

    @Test func recordedRevisionsAreWritten() throws {
        let outer = MultipartWriter(
            boundary: "a1ba30b34f4898b2e932aba23d85032e5b8e68c9a5da33ca66020317edde"
        )
        let inner = "c6d20006c24678a7a52af7dfd3ee9d1de6bde0a07038f827f8097d839781"
        let revision = try #require(RevisionID("1-4af538dccddc1de94d93b24764491400"))
        let text = written { output in
            var writer = outer
            let nested = PartHeaders.nested(
                MultipartWriter(boundary: inner),
                document: "att1",
                revision: revision
            )
            writer.beginPart(nested, to: output)
            output.append(text: related(inner, isNested: true))
            writer.end(agent: "curl/8", to: output)
        }
        #expect(
            text.hasPrefix(
                "--\(outer.boundary)\r\nContent-Type: multipart/related; boundary=\"\(inner)\"\r\n"
                    + "X-Doc-Id: att1\r\nX-Rev-Id: 1-4af538dccddc1de94d93b24764491400\r\n\r\n--\(inner)\r\n"
            )
        )
        #expect(text.utf8.count == 762)
    }

    @Test func recordedBulkGetIsWritten() throws {
        let revision = try #require(RevisionID("1-4af538dccddc1de94d93b24764491400"))
        let inner = String(repeating: "5", count: 60)
        let text = written { output in
            var writer = MultipartWriter(boundary: String(repeating: "a", count: 60))
            writer.beginPart(.document, to: output)
            output.append(
                text: #"{"_id":"t1","_rev":"1-fc5dde8cea54343d97c45c8d25ecf83f","#
                    + #""_revisions":{"ids":["fc5dde8cea54343d97c45c8d25ecf83f"],"start":1},"#
                    + #""n":1,"owner":"jane","tag":"public"}"#
            )
            writer.beginPart(.error, to: output)
            ErrorAnswer.appendRow(
                document: "nosuch",
                revision: "1-x",
                status: 404,
                reason: "missing",
                to: output
            )
            writer.beginPart(
                .nested(MultipartWriter(boundary: inner), document: "att1", revision: revision),
                to: output
            )
            output.append(text: related(inner, isNested: true))
            writer.end(agent: nil, to: output)
        }
        #expect(text.utf8.count == 1_215)
    }

    @Test func lastBoundaryForCouchDBHasNoLineEnd() {
        #expect(related("b", agent: "CouchDB-Replicator/3.3").hasSuffix("\r\n--b--"))
        #expect(related("b", agent: "CouchbaseLite/1.4").hasSuffix("\r\n--b--\r\n"))
        let empty = written { MultipartWriter(boundary: "b").end(agent: nil, to: $0) }
        #expect(empty == "\r\n--b--\r\n")
    }

    @Test func attachmentHasItsHeaders() throws {
        let text = written { output in
            var writer = MultipartWriter(boundary: "b")
            let headers = PartHeaders.attachment(
                "a\"\r\nX: y",
                contentType: "text/plain",
                encoding: "gzip"
            )
            writer.beginPart(headers, to: output)
        }
        #expect(
            text == "--b\r\nContent-Disposition: attachment; filename=\"a\\\"  X: y\"\r\n"
                + "Content-Encoding: gzip\r\nContent-Type: text/plain\r\n\r\n"
        )
    }

    @Test func writtenPartsAreRead() throws {
        let text = related("b")
        let reader = try #require(ContentType("multipart/related; boundary=\"b\""))
            .multipartReader()
        var body = ""
        try view(text) { chunk in
            try reader.read(chunk) { event in
                if case .data(let data) = event { body += data.text }
                if case .part(let headers) = event {
                    #expect(headers["content-type"] == "application/json")
                }
            }
        }
        try reader.finish()
        #expect(reader.isEnded)
        #expect(body == Self.json)
    }
}
