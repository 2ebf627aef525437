import Bytes
import SyncWire
import Testing

@Suite struct ChangesRequestTests {
    private func request(
        _ query: String,
        _ body: String = "",
        heartbeatMax: Int = 0
    ) throws -> ChangesRequest {
        try view(query) { query in
            try view(body) { body in
                try ChangesRequest(
                    query: URLParameters(query),
                    body: body,
                    heartbeatMillisecondsMax: heartbeatMax
                )
            }
        }
    }

    @Test func recordedQueryIsParsed() throws {
        let request = try request(
            "since=0&limit=3&filter=sync_gateway/bychannel&channels=_jane,_public&style=all_docs&active_only=true"
        )
        #expect(request.feed == .normal)
        #expect(request.since == .token(.zero))
        #expect(request.limit == 3)
        #expect(request.filter == .channels(["_jane", "_public"]))
        #expect(request.content.hasAllLeaves)
        #expect(request.content.isActiveOnly)
        #expect(!request.content.hasDocuments)
        #expect(request.waiting.heartbeatMilliseconds == 0)
        #expect(request.waiting.timeoutMilliseconds == 300_000)
    }

    @Test func recordedBodyIsParsed() throws {
        let request = try request(
            "",
            #"{"feed":"normal","filter":"_doc_ids","doc_ids":["t1","att1"]}"#
        )
        #expect(request.filter == .documents(["t1", "att1"]))
    }

    @Test func webSocketOptionsAreABody() throws {
        let request = try request(
            "feed=websocket",
            #"{"since":"6:4","style":"all_docs","heartbeat":30000,"accept_encoding":"gzip","limit":null}"#
        )
        #expect(request.feed == .websocket)
        #expect(request.since == .token(SequenceToken(4, trigger: 6)))
        #expect(request.isCompressed)
        #expect(request.waiting.heartbeatMilliseconds == 30_000)
        #expect(request.waiting.timeoutMilliseconds == 0)
        #expect(request.limit == nil)
    }

    @Test func queryOverridesBody() throws {
        let body =
            #"{"since":5,"limit":1,"feed":"longpoll","include_docs":true,"channels":"a","filter":"x"}"#
        let request = try request(
            "since=%227%22&limit=2&feed=continuous&include_docs=false&filter=sync_gateway%2Fbychannel",
            body
        )
        #expect(request.since == .token(SequenceToken(7)))
        #expect(request.limit == 2)
        #expect(request.feed == .continuous)
        #expect(!request.content.hasDocuments)
        #expect(request.filter == .channels(["a"]))
    }

    @Test(
        arguments: [
            ("since=now", "", .now), ("", #"{"since":"now"}"#, .now), ("", "{}", .token(.zero)),
            ("since=", "", .token(.zero)), ("", #"{"since":5}"#, .token(SequenceToken(5))),
            ("since=2:6:4", "", .token(SequenceToken(4, trigger: 6, low: 2))),
            ("since=8~ff:5", "", .token(SequenceToken(5))), ("", #"{"since":null}"#, .token(.zero)),
        ] as [(String, String, ChangesRequest.Since)]
    ) func sinceHasManyForms(
        query: String,
        body: String,
        expected: ChangesRequest.Since
    ) throws {
        #expect(try request(query, body).since == expected)
    }

    @Test(
        arguments: [
            (nil, nil, 0, 0, 300_000), (1, nil, 0, 25_000, 0), (60_000, nil, 0, 60_000, 0),
            (60_000, 5, 30_000, 30_000, 0), (0, 1_000_000, 0, 0, 900_000), (nil, 0, 0, 0, 0),
            (nil, 1_500, 0, 0, 1_500),
        ] as [(Int?, Int?, Int, Int, Int)]
    ) func waitingIsBounded(
        heartbeat: Int?,
        timeout: Int?,
        heartbeatMax: Int,
        expectedHeartbeat: Int,
        expectedTimeout: Int
    ) {
        let waiting = ChangesRequest.Waiting(
            heartbeat: heartbeat,
            timeout: timeout,
            heartbeatMillisecondsMax: heartbeatMax
        )
        #expect(waiting.heartbeatMilliseconds == expectedHeartbeat)
        #expect(waiting.timeoutMilliseconds == expectedTimeout)
    }

    @Test(
        arguments: [
            ("filter=nope", "", .unknownFilter), ("since=abc", "", .badSequence),
            ("feed=eventsource", "", .unknownFeed),
            ("since=abc&filter=nope&feed=x", "", .badSequence),
            ("filter=nope&feed=x", "", .unknownFilter),
            ("filter=sync_gateway/bychannel", "", .missingChannels),
            ("filter=sync_gateway/bychannel&channels=", "", .missingChannels),
            ("filter=sync_gateway/bychannel", #"{"channels":[]}"#, .emptyChannels),
            ("filter=sync_gateway/bychannel&channels=a,,b", "", .badChannel("")),
            ("filter=sync_gateway/bychannel", #"{"channels":["a,b"]}"#, .badChannel("a,b")),
            ("filter=_doc_ids", "", .missingDocumentIDs),
            ("filter=_doc_ids&doc_ids=[]", "", .missingDocumentIDs),
            ("filter=_doc_ids&doc_ids=a&feed=longpoll", "", .documentIDsNeedNormalFeed),
            ("", "[]", .badJSON), ("", "not json", .badJSON), ("", #"{"limit":"x"}"#, .badJSON),
            ("", #"{"since":-1}"#, .badSequence), ("", #"{"since":[1]}"#, .badSequence),
            ("", #"{"feed":1}"#, .badJSON), ("", #"{"limit":1.5}"#, .badJSON),
            ("limit=1", #"{"limit":"3"}"#, .badJSON), ("style=x", #"{"style":1}"#, .badJSON),
            ("active_only=true", #"{"active_only":1}"#, .badJSON),
            ("filter=_doc_ids&doc_ids=a", #"{"doc_ids":1}"#, .badJSON),
            ("", #"{"timeout":-1}"#, .badJSON),
        ] as [(String, String, RequestRefusal)]
    ) func invalidChangesRequestIsRefusedWithItsReason(
        query: String,
        body: String,
        expected: RequestRefusal
    ) {
        #expect(refusal { try request(query, body) } == expected)
    }

    @Test func recordedReasonsAreAnswered() {
        let texts = [RequestRefusal.unknownFilter, .badSequence, .unknownFeed, .multipartOnly].map {
            refusal in
            written { ErrorAnswer.append(status: refusal.status, reason: refusal.reason, to: $0) }
        }
        #expect(
            texts == [
                #"{"error":"Bad Request","reason":"Unknown filter; try sync_gateway/bychannel or _doc_ids"}"#,
                #"{"error":"Bad Request","reason":"Invalid sequence"}"#,
                #"{"error":"Bad Request","reason":"Unknown feed type"}"#,
                #"{"error":"Not Acceptable","reason":"Response is multipart"}"#,
            ]
        )
    }

    @Test(arguments: [#"doc_ids=["a","b,c"]"#, "doc_ids=a,b", "doc_ids=%5B%22a%22%5D"])
    func documentIDsAreJSONOrCommas(query: String) throws {
        let filter = try request("filter=_doc_ids&" + query).filter
        #expect(
            [.documents(["a", "b,c"]), .documents(["a", "b"]), .documents(["a"])].contains(filter)
        )
    }

    @Test func emptyListOfTheQueryOverridesNothing() throws {
        let body = #"{"doc_ids":["a"]}"#
        #expect(try request("filter=_doc_ids&doc_ids=", body).filter == .documents(["a"]))
        #expect(try request("filter=_doc_ids&doc_ids=[]", body).filter == .documents(["a"]))
        #expect(try request("filter=_doc_ids&doc_ids=b", body).filter == .documents(["b"]))
    }

    @Test func negativeLimitOfABodyIsIgnored() throws {
        #expect(try request("", #"{"limit":-1}"#).limit == nil)
        #expect(try request("limit=2", #"{"limit":-1}"#).limit == 2)
    }

    @Test func listsAreBounded() {
        let many = [String](repeating: "a", count: 10_001).joined(separator: ",")
        #expect(
            refusal { try request("filter=sync_gateway/bychannel&channels=" + many) }
                == .tooMany("channels")
        )
        #expect(refusal { try request(String(repeating: "a", count: 70_000)) } == .queryTooLong)
        #expect(refusal { try request(String(repeating: "a&", count: 300)) } == .tooMany("query"))
    }
}

@Suite struct BulkRequestTests {
    @Test func recordedBulkGetIsParsed() throws {
        let items = try view(#"{"docs":[{"id":"t1"},{"id":"nosuch","rev":"1-x"},{"id":"att1"}]}"#) {
            try BulkGetRequest($0).items
        }
        #expect(items.map(\.id) == ["t1", "nosuch", "att1"])
        #expect(items.map(\.revision) == [nil, "1-x", nil])
        #expect(items.allSatisfy { $0.refusal == nil && $0.attachmentsSince == nil })
    }

    @Test func itemsOfBulkGetAreRefusedOneByOne() throws {
        let json =
            #"{"docs":[{"id":1},{},{"id":"a","rev":2},{"id":""},5,{"id":"a","revs_limit":-1},"#
            + #"{"id":"b","rev":null,"atts_since":["1-a"],"revs_from":["2-b"],"revs_limit":3}]}"#
        let items = try view(json) { try BulkGetRequest($0).items }
        #expect(items.prefix(5).allSatisfy { $0.refusal == .badBulkGet })
        #expect(items[5].refusal == .badMember("revs_limit"))
        #expect(items[6].refusal == nil)
        #expect(items[6].attachmentsSince == ["1-a"])
        #expect(items[6].revisionsFrom == ["2-b"])
        #expect(items[6].revisionsLimit == 3)
    }

    @Test(
        arguments: [
            ("{}", .missingDocuments), (#"{"docs":{}}"#, .missingDocuments), ("[]", .badJSON),
        ]
            as [(String, RequestRefusal)]
    )
    func invalidBulkGetIsRefusedWithItsReason(json: String, expected: RequestRefusal) {
        #expect(refusal { try view(json) { try BulkGetRequest($0) } } == expected)
    }

    @Test func recordedRowsAreWritten() throws {
        let row = written {
            ErrorAnswer.appendRow(
                document: "nosuch",
                revision: "1-x",
                status: 404,
                reason: "missing",
                to: $0
            )
        }
        #expect(
            row
                == #"{"error":"not_found","id":"nosuch","reason":"missing","rev":"1-x","status":404}"#
        )
        let rows = written {
            ErrorAnswer.appendRow(document: "t1", status: 409, reason: "Document exists", to: $0)
            ErrorAnswer.appendRow(
                document: "3afb1eb21ca269aad0be3ad2b840ab3a",
                revision: "1-7b81e01d1634f8f9faeb1259f0211369",
                to: $0
            )
        }
        #expect(
            rows == #"{"error":"conflict","id":"t1","reason":"Document exists","status":409}"#
                + #"{"id":"3afb1eb21ca269aad0be3ad2b840ab3a","rev":"1-7b81e01d1634f8f9faeb1259f0211369"}"#
        )
    }

    @Test func recordedRevisionsDiffIsParsedAndAnswered() throws {
        let request = try view(#"{"t1":["1-zz","2-yy"],"zz":["1-a"]}"#) { try RevisionsDiff($0) }
        #expect(request.documents.map(\.id) == ["t1", "zz"])
        #expect(request.documents.map(\.revisions) == [["1-zz", "2-yy"], ["1-a"]])
        let answer = written { output in
            var writer = RevisionsDiff.Writer(output)
            writer.append("zz", missing: ["1-a"], ancestors: [])
            writer.append(
                "t1",
                missing: ["1-zz", "2-yy"],
                ancestors: ["1-fc5dde8cea54343d97c45c8d25ecf83f"]
            )
            writer.end()
        }
        #expect(
            answer == """
                {"zz":{"missing":["1-a"]}
                ,
                "t1":{"missing":["1-zz","2-yy"],"possible_ancestors":["1-fc5dde8cea54343d97c45c8d25ecf83f"]}
                }
                """
        )
        #expect(answer.utf8.count == 122)
        #expect(written { RevisionsDiff.Writer($0).end() } == "{}")
    }

    @Test(arguments: ["[]", "1", #"{"a":1}"#, #"{"a":[1]}"#, "", #"{"a":["1-a"]"#])
    func otherRevisionsDiffsAreRefused(json: String) {
        #expect(refusal { try view(json) { try RevisionsDiff($0) } } == .badJSON)
    }
}

@Suite struct BulkDocumentsReaderTests {
    private func read(_ text: String, piece: Int) throws -> ([String], Bool) {
        let reader = BulkDocumentsReader()
        var documents: [String] = []
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: piece) {
            try view(Array(bytes[start..<min(start + piece, bytes.count)])) { chunk in
                try reader.read(chunk) { documents.append($0.text) }
            }
        }
        try reader.finish()
        return (documents, reader.newEdits)
    }

    @Test(
        arguments: [
            (#"{"docs":[]}"#, [], true),
            (
                #"{"docs":[{"_id":"t1","tag":"public","owner":"jane"},{"_id":"bad"},{"n":5}]}"#,
                [#"{"_id":"t1","tag":"public","owner":"jane"}"#, #"{"_id":"bad"}"#, #"{"n":5}"#],
                true
            ),
            (
                #" { "new_edits" : false , "docs" : [ {"a":"]}\"{"} , {"b":[{},{}]} ] } "#,
                [#"{"a":"]}\"{"}"#, #"{"b":[{},{}]}"#], false
            ),
            (#"{"docs":[{"a":1}],"new_edits":false}"#, [#"{"a":1}"#], false),
            (#"{"x":{"docs":[1]},"y":[],"z":1.5,"docs":[{}],"w":"}"}"#, ["{}"], true),
            (#"{"d\u006fcs":[{"a":"\\"}]}"#, [#"{"a":"\\"}"#], true),
        ] as [(String, [String], Bool)]
    ) func documentsDoNotDependOnChunks(
        text: String,
        expected: [String],
        newEdits: Bool
    ) throws {
        for piece in 1...text.utf8.count {
            let (documents, isNew) = try read(text, piece: piece)
            #expect(documents == expected)
            #expect(isNew == newEdits)
        }
    }

    @Test(
        arguments: [
            ("", .badJSON), ("{}", .missingDocuments), (#"{"docs":1}"#, .missingDocuments),
            ("[]", .badJSON),
            (#"{"docs":[1]}"#, .badJSON), (#"{"docs":[{},]}"#, .badJSON),
            (#"{"docs":[{} {}]}"#, .badJSON),
            (#"{"docs":[{}]"#, .badJSON), (#"{"docs":[{}]}}"#, .badJSON),
            (#"{"docs":[{}],}"#, .badJSON),
            (#"{,"docs":[{}]}"#, .badJSON), (#"{"a":1 2,"docs":[]}"#, .badJSON),
            (#"{"docs":[{]"#, .badJSON),
            (#"{"docs":[],"docs":[]}"#, .missingDocuments), (#"{"a":]}"#, .badJSON),
            (#"{"docs":[{}]]}"#, .badJSON),
        ] as [(String, RequestRefusal)]
    ) func otherBodiesAreRefused(text: String, expected: RequestRefusal) {
        for piece in [1, 7, 1_000] {
            #expect(refusal { try read(text, piece: piece) } == expected)
        }
    }

    @Test func oneDocumentIsBounded() {
        let text = #"{"docs":[{"a":""# + String(repeating: "x", count: 20 << 20)
        #expect(refusal { try read(text, piece: 1 << 20) } == .documentTooLarge)
        let member = #"{"a":""# + String(repeating: "x", count: 70_000)
        #expect(refusal { try read(member, piece: 1 << 20) } == .badJSON)
    }
}

@Suite struct QueryTests {
    private func parameters(_ text: String) throws -> URLParameters {
        try view(text) { try URLParameters($0) }
    }

    @Test func queryIsDecodedAsAForm() throws {
        let query = try parameters("a=1&b=x+y%2Bz&a=2&&c&d=%zz&e=%ff&f=%22q%22&%67=h")
        #expect(query["a"] == "1")
        #expect(query["b"] == "x y+z")
        #expect(query["c"] == "")
        #expect(query["d"] == nil)
        #expect(query["e"] == nil)
        #expect(query.string("f") == "q")
        #expect(query["f"] == "\"q\"")
        #expect(query["g"] == "h")
        #expect(query.integer("a") == 1)
        #expect(query.integer("b") == nil)
    }

    @Test func recordedDocumentQueriesAreParsed() throws {
        let plain = try DocumentQuery(parameters("attachments=true&revs=true"))
        #expect(plain.history?.limit == nil && plain.history?.known == [])
        #expect(plain.attachmentsSince == [])
        #expect(plain.openRevisions == nil)
        #expect(try DocumentQuery(parameters("open_revs=all&revs=true")).openRevisions == .all)
        #expect(
            try DocumentQuery(parameters("open_revs=%5B%229-nope%22%5D")).openRevisions
                == .listed(["9-nope"])
        )
    }

    @Test func documentQueryHasHistoryUpToKnownRevisions() throws {
        let query = try DocumentQuery(
            parameters(#"revs=true&revs_limit=5&atts_since=["1-a"]&rev=3-c&latest=true&meta=true"#)
        )
        #expect(query.history?.limit == 5)
        #expect(query.history?.known == ["1-a"])
        #expect(query.attachmentsSince == nil)
        #expect(query.revision == "3-c")
        #expect(query.isLatest)
        #expect(query.details == [.conflicts, .deletedConflicts, .revisionInfo])
        #expect(try DocumentQuery(parameters("revs=true&revs_limit=0")).history == nil)
        let bad = try parameters("atts_since=1-a")
        #expect(refusal { try DocumentQuery(bad) } == .badList("atts_since"))
    }

    @Test func allDocumentsRequestIsParsed() throws {
        let query = try parameters(
            "access=false&channels=true&include_docs=true&startkey=%22a%22&end_key=b&limit=2&descending=true&skip=1"
                + "&inclusive_end=false"
        )
        let request = try AllDocumentsRequest(query: query, body: nil)
        #expect(
            request.content.hasChannels && request.content.hasDocuments
                && !request.content.hasAccess
        )
        #expect(request.limit == 2)
        guard case .range(let range) = request.selection else {
            Issue.record("a request without keys is a range")
            return
        }
        #expect(range.start == "a" && range.end == "b" && range.isDescending && range.skip == 1)
        #expect(!range.includesEnd)
        let keys = try view(#"{"keys":["b","a"]}"#) {
            try AllDocumentsRequest(query: .none, body: $0)
        }
        #expect(keys.selection == .keys(["b", "a"]))
        #expect(
            try AllDocumentsRequest(query: parameters(#"keys=["x"]"#), body: nil).selection
                == .keys(["x"])
        )
    }

    @Test func rowsOfAllDocumentsAreWritten() {
        var row = AllDocumentsWriter.Row(id: "a", revision: "1-x")
        let text = written { output in
            var writer = AllDocumentsWriter(output)
            writer.append(row)
            row.channels = ["_jane", "!"]
            row.document = Array("{}".utf8)
            row.sequence = 5
            writer.append(row)
            writer.append(missing: "b", status: 404)
            writer.end(updateSequence: 5)
        }
        #expect(
            text == #"{"rows":["# + "\n" + #"{"key":"a","id":"a","value":{"rev":"1-x"}}"# + "\n,"
                + #"{"key":"a","id":"a","value":{"rev":"1-x","channels":["_jane","!"]},"doc":{},"update_seq":5}"#
                + "\n," + #"{"key":"b","error":"not_found","status":404}"# + "\n],\n"
                + #""total_rows":3,"update_seq":5}"#
        )
        #expect(
            written { AllDocumentsWriter($0).end(updateSequence: 0) }
                == "{\"rows\":[\n],\n\"total_rows\":0,\"update_seq\":0}"
        )
    }

    @Test func badKeysAreRefused() throws {
        let query = try parameters("keys=x")
        #expect(refusal { try AllDocumentsRequest(query: query, body: nil) } == .badKeys)
        for body in ["{}", #"{"keys":1}"#, #"{"keys":[1]}"#] {
            #expect(
                refusal { try view(body) { try AllDocumentsRequest(query: .none, body: $0) } }
                    == .missingKeys
            )
        }
        #expect(
            refusal { try view("[") { try AllDocumentsRequest(query: .none, body: $0) } }
                == .badJSON
        )
    }
}
