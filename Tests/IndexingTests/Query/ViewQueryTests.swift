import Bytes
import Indexing
import JSON
import Testing

@Suite struct ViewQueryTests {
    private static func parameters(_ query: String) -> [QueryParameter] {
        query.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return QueryParameter(name: String(parts[0]), value: Array(parts[1].utf8))
        }
    }

    static func parse(
        _ query: String,
        body: String? = nil,
        hasReduce: Bool = false
    ) throws(QueryRefusal) -> ViewQuery {
        let parameters = parameters(query)
        let bytes = Array((body ?? "").utf8)
        let result = bytes.borrowed { view in
            Result { () throws(QueryRefusal) in
                try ViewQuery(
                    parameters: parameters,
                    body: body == nil ? nil : view,
                    hasReduce: hasReduce,
                    encode: StandInKeys.encode
                )
            }
        }
        return try result.get()
    }

    // MARK: Values

    @Test func lastIncludeDocsIsReadAloneAsTheParserReadsIt() throws {
        for (query, isIncluded) in [
            ("", false), ("include_docs=true", true), ("include_docs=TRUE&limit=1", true),
            ("include_docs=true&include_docs=False", false),
            ("include_docs=false&include_docs=True", true),
        ] {
            #expect(try Self.parse(query).includesDocuments == isIncluded, "\(query)")
            #expect(ViewQuery.includesDocuments(Self.parameters(query)) == isIncluded, "\(query)")
        }
        // The parser refuses these queries.
        for query in ["include_docs=1", "include_docs=true&include_docs=", "include_docs= true"] {
            #expect(throws: QueryRefusal.self) { try Self.parse(query) }
            #expect(!ViewQuery.includesDocuments(Self.parameters(query)), "\(query)")
        }
    }

    @Test func queryWithoutParametersHasTheDefaults() throws {
        let query = try Self.parse("")
        #expect(query == ViewQuery())
        #expect(query.selection.includesEnd && query.selection.keys == nil)
        #expect(query.limit == nil && query.skip == 0 && !query.isDescending)
        #expect(query.freshness == .updateAfter && query.failurePolicy == .continueRows)
        #expect(!query.includesDocuments && !query.isDebug && !query.usesFullSet)
        #expect(query.timeoutMilliseconds == 60_000)
        #expect(query.reduction == .none)
        #expect(try Self.parse("", hasReduce: true).reduction == .all)
    }

    @Test func everyParameterIsRead() throws {
        let query = try Self.parse(
            "descending=true&startkey=[1,2]&endkey=null&startkey_docid=a&endkey_docid=b&limit=5"
                + "&skip=3&inclusive_end=false&reduce=false&stale=false&include_docs=true"
                + "&on_error=stop&connection_timeout=2500&full_set=true&debug=TRUE&_type=main",
            hasReduce: true
        )
        #expect(query.selection.startKey == StandInKeys.encode("[1,2]"))
        #expect(query.selection.endKey == StandInKeys.encode("null"))
        #expect(query.selection.startDocumentID == Array("a".utf8))
        #expect(query.selection.endDocumentID == Array("b".utf8))
        #expect(!query.selection.includesEnd && query.isDescending)
        #expect(query.limit == 5 && query.skip == 3)
        #expect(query.reduction == .none && query.freshness == .current)
        #expect(query.includesDocuments && query.usesFullSet && query.isDebug)
        #expect(query.failurePolicy == .stopRows && query.timeoutMilliseconds == 2_500)
    }

    @Test(arguments: [
        ("start_key=1", "startkey=1"), ("end_key=1", "endkey=1"),
        ("start_key_doc_id=x", "startkey_docid=x"), ("end_key_doc_id=x", "endkey_docid=x"),
        ("key=7", "startkey=7&endkey=7"), ("startkey=1&startkey=2", "startkey=2"),
        ("key= 7 \n", "key=7"), ("limit=+4", "limit=4"), ("descending=False", ""),
        ("nonsense=1&bbox=0,0,1,1&callback=f", ""), ("stale=update_after", ""),
        ("on_error=continue", ""), ("reduce=false", ""),
    ]) func equivalentParametersParseToEqualQueries(one: String, other: String) throws {
        #expect(try Self.parse(one) == Self.parse(other))
    }

    /// Gateways time out after 75 s and retry; they do not read the errors of an answer.
    @Test(arguments: [
        ("stale=false", 90_000), ("stale=false&connection_timeout=60000", 60_000),
        ("connection_timeout=1000&stale=false", 1_000), ("stale=false&stale=ok", 60_000),
        ("stale=ok&stale=false", 90_000), ("stale=update_after", 60_000),
    ]) func onlyCurrentQueryWithoutTimeoutHas90SecondTimeout(query: String, timeout: Int) throws {
        #expect(try Self.parse(query).timeoutMilliseconds == timeout)
    }

    @Test func numberAboveAllIntegersIsTheGreatestOne() throws {
        #expect(try Self.parse("limit=99999999999999999999999").limit == .max)
    }

    @Test(arguments: [
        ("group=true", ViewQuery.Reduction.groups(level: nil)), ("group=false", .all),
        ("group_level=2", .groups(level: 2)), ("group_level=0", .all), ("reduce=true", .all),
        ("reduce=false", .none), ("reduce=true&reduce=false", .none),
        ("reduce=false&reduce=true", .all),
        ("reduce=false&reduce=true&group_level=1", .groups(level: 1)),
    ]) func groupsAreRead(query: String, reduction: ViewQuery.Reduction) throws {
        #expect(try Self.parse(query, hasReduce: true).reduction == reduction)
    }

    @Test func keysKeepOrderAndRepetitions() throws {
        let keys = ["3", "\"a,]\\\"\"", "[1,[2,{\"b\":3}]]", "3"]
        let array = "[ \(keys.joined(separator: " ,")) ]"
        let expected = keys.map { StandInKeys.encode($0) }
        #expect(try Self.parse("keys=\(array)").selection.keys == expected)
        let body = "{\"x\":[1],\"k\\u0065ys\": \(array), \"y\":{\"keys\":[]}} "
        #expect(try Self.parse("", body: body).selection.keys == expected)
        #expect(try Self.parse("keys=[9]", body: body).selection.keys == expected)
        #expect(try Self.parse("", body: "{}").selection.keys == nil)
        #expect(try Self.parse("", body: " \r\n").selection.keys == nil)
        #expect(try Self.parse("keys=[]").selection.keys == [])
        let reduced = try Self.parse("keys=[1]&group=true", hasReduce: true)
        #expect(reduced.reduction == .groups(level: nil))
    }

    @Test func stringInKeysThatIsTooLongForARowMatchesNothing() throws {
        let long = "\"" + String(repeating: "x", count: 4_094) + "\""
        let keys = try Self.parse("keys=[1,\(long),2]").selection.keys
        #expect(keys == [StandInKeys.encode("1"), StandInKeys.encode("2")])
        #expect(try Self.parse("", body: "{\"keys\":[\(long)]}").selection.keys == [])
        // The keys of rows can be shorter than these texts of them.
        let escaped = "\"" + String(repeating: "\\u0061", count: 1_000) + "\""
        let blank = "[" + String(repeating: " ", count: 5_000) + "]"
        for key in [escaped, blank] {
            #expect(throws: QueryRefusal.self) { try Self.parse("keys=[\(key)]") }
        }
    }

    /// A sort key beyond those of rows, as a bound has it.
    @Test func keyBeyondRowKeysBoundsARangeAndMatchesNothing() throws {
        let long = [UInt8](repeating: 0x30, count: Collation.boundKeyBytesMax)
        func parse(_ name: String, _ value: String) throws(QueryRefusal) -> ViewQuery {
            try ViewQuery(
                parameters: [QueryParameter(name: name, value: Array(value.utf8))],
                body: nil,
                hasReduce: false,
                encode: { $0.count > 1 ? long : StandInKeys.encode($0.text) }
            )
        }
        #expect(try parse("startkey", "\"long\"").selection.startKey == long)
        #expect(try parse("endkey", "\"long\"").selection.endKey == long)
        let keys = try parse("keys", "[\"long\",1,\"long\"]").selection.keys
        #expect(keys == [StandInKeys.encode("1")])
        let plan = QueryPlan(try parse("key", "\"long\""))
        // Rows of other keys are before or behind the range.
        for key in ["1", "\"0\"", "[]"] {
            #expect(!plan.scan.ranges[0].contains(StandInKeys.rowKey(key, id: "d")))
        }
    }

    /// Each key costs more memory than its bytes.
    @Test(arguments: [(256 << 10, false), (256 << 10 + 1, true)])
    func tooManyShortKeysAreRefused(count: Int, isRefused: Bool) {
        expect(Array(repeating: "1", count: count), isRefused: isRefused)
    }

    /// Sort keys may be longer than the texts of keys.
    @Test(arguments: [(8 << 10, false), (8 << 10 + 1, true)])
    func keysOfTooManyBytesAreRefused(count: Int, isRefused: Bool) {
        expect(Array(repeating: "1", count: count), isRefused: isRefused, keyBytes: 1 << 10)
    }

    /// Checks a query of `keys` in a body, whose sort keys have `keyBytes` each; nil: those of the stand-in.
    private func expect(_ keys: [String], isRefused: Bool, keyBytes: Int? = nil) {
        let body = Array("{\"keys\":[\(keys.joined(separator: ","))]}".utf8)
        let outcome = body.withUnsafeBytes { bytes in
            Result { () throws(QueryRefusal) in
                try ViewQuery(
                    parameters: [],
                    body: ByteView(bytes),
                    hasReduce: false,
                    encode: { text in
                        keyBytes.map { [UInt8](repeating: 1, count: $0) }
                            ?? StandInKeys.encode(text.text)
                    }
                )
            }
        }
        switch outcome {
        case .success(let query):
            #expect(!isRefused && query.selection.keys?.count == keys.count)
        case .failure(let error):
            let reason = "There are too many `keys`. Query them in several requests."
            #expect(isRefused && error.reason == reason && error.status == 400)
        }
    }

    @Test func equalStartAndEndAreARange() throws {
        for query in ["startkey=1&endkey=1.0", "startkey=1&endkey=1&descending=true"] {
            let selection = try Self.parse(query).selection
            #expect(selection.startKey == StandInKeys.encode("1"), "\(query)")
            #expect(selection.endKey == StandInKeys.encode("1"), "\(query)")
            #expect(selection.includesEnd && selection.keys == nil, "\(query)")
        }
    }

    // MARK: Refusals

    struct Refused: CustomTestStringConvertible {
        var query: String
        var body: String?
        var hasReduce = false
        var error = "query_parse_error"
        var reason: String

        var testDescription: String { "\(query) \(body ?? "")" }
    }

    static let groups = "Invalid URL parameter 'group' or  'group_level' for non-reduce view."
    static let reversed = "No rows can match your key range, reverse your start_key and end_key or"

    static let parameters = [
        Refused(
            query: "stale=no",
            reason: "stale only available as stale=ok or as stale=update_after"
        ),
        Refused(
            query: "group=true&group_level=1",
            hasReduce: true,
            reason: "Query parameter `group_level` is not compatible with `group`"
        ),
        Refused(
            query: "keys=[1]",
            hasReduce: true,
            reason: "Multi-key fetchs for reduce view must include `group=true`"
        ),
        Refused(
            query: "keys=[1]&group_level=1",
            hasReduce: true,
            reason: "Multi-key fetchs for reduce view must include `group=true`"
        ),
        Refused(
            query: "key=1&keys=[1]",
            reason: "Query parameter `start_key` is not compatible with multi-get"
        ),
        Refused(
            query: "end_key=1",
            body: "{\"keys\":[]}",
            reason: "Query parameter `end_key` is not compatible with multi-get"
        ),
        Refused(query: "startkey=2&endkey=1", reason: reversed + " set descending=true"),
        Refused(
            query: "startkey=1&endkey=2&descending=true",
            reason: reversed + " set descending=false"
        ),
        Refused(query: "descending=yes", reason: "Invalid boolean parameter: \"yes\""),
        Refused(query: "inclusive_end=", reason: "Invalid boolean parameter: []"),
        Refused(query: "limit=x\"", reason: "Invalid value for integer parameter: \"x\\\"\""),
        Refused(query: "limit=", reason: "Invalid value for integer parameter: []"),
        Refused(query: "limit=-1", reason: "Invalid value for positive integer parameter: \"-1\""),
        Refused(query: "skip=-1", reason: "Invalid value for positive integer parameter: \"-1\""),
        Refused(
            query: "group_level=-1",
            hasReduce: true,
            reason: "Invalid value for positive integer parameter: \"-1\""
        ),
        Refused(query: "group=true", reason: groups),
        Refused(query: "group_level=1", reason: groups),
        Refused(query: "reduce=false&group=true", hasReduce: true, reason: groups),
        Refused(query: "reduce=true", reason: "Invalid URL parameter `reduce` for map view."),
        Refused(
            query: "include_docs=true",
            hasReduce: true,
            reason: "Query parameter `include_docs` is invalid for reduce views."
        ),
        Refused(
            query: "_type=replica",
            reason: "There are no replica indexes: query parameter `_type` must be `main`."
        ),
        Refused(
            query: "startkey=\"" + String(repeating: "x", count: 200) + "\"",
            reason: "A key in query parameter `startkey` is longer than 65536 bytes."
                + " Query a shorter one: no row has such a key."
        ),
    ]

    static let requests = [
        Refused(
            query: "keys={}",
            error: "bad_request",
            reason: "`keys` parameter is not an array."
        ),
        Refused(
            query: "",
            body: "{\"keys\":1}",
            error: "bad_request",
            reason: "`keys` member must be a array."
        ),
        Refused(
            query: "",
            body: "[1]",
            error: "bad_request",
            reason: "Request body must be a JSON object"
        ),
        Refused(query: "", body: "{", error: "bad_request", reason: "invalid UTF-8 JSON: \"{\""),
        Refused(
            query: "startkey=abc",
            error: "bad_request",
            reason: "invalid UTF-8 JSON: \"abc\""
        ),
        Refused(query: "key=", error: "bad_request", reason: "invalid UTF-8 JSON: []"),
        Refused(query: "keys=[1", error: "bad_request", reason: "invalid UTF-8 JSON: \"[1\""),
        Refused(
            query: "on_error=explode",
            error: "bad_request",
            reason: "Invalid value (`explode`) for the parameter `on_error`."
                + " It must be `continue` (default) or `stop`."
        ),
        Refused(
            query: "connection_timeout=\"1\"",
            error: "bad_request",
            reason: "Query parameter `connection_timeout` must be an integer"
        ),
        Refused(
            query: "connection_timeout=-1",
            error: "bad_request",
            reason: "Query parameter `connection_timeout` must be an integer"
        ),
    ]

    @Test(arguments: parameters + requests)
    func contradictoryQueryIsRefusedWithItsReason(refused: Refused) {
        let expected = QueryRefusal(status: 400, error: refused.error, reason: refused.reason)
        #expect(throws: expected) {
            try Self.parse(refused.query, body: refused.body, hasReduce: refused.hasReduce)
        }
    }
}
