import Bytes
import SyncWire
import Testing

@Suite struct HistoryTests {
    private func history(_ json: String) throws -> RevisionHistory {
        try RevisionHistory(Array(json.utf8))
    }

    @Test func recordedHistoryIsParsedAndWritten() throws {
        let json = #"{"ids":["fc5dde8cea54343d97c45c8d25ecf83f"],"start":1}"#
        let history = try history(json)
        #expect(history.newest.description == "1-fc5dde8cea54343d97c45c8d25ecf83f")
        #expect(history.json == Array(json.utf8))
    }

    @Test(arguments: [
        "{}", "[]", "x", #"{"start":1}"#, #"{"ids":["a"]}"#, #"{"start":1,"ids":[]}"#,
        #"{"start":0,"ids":["a"]}"#,
        #"{"start":1,"ids":["b","a"]}"#, #"{"start":-1,"ids":["a"]}"#,
        #"{"start":1.5,"ids":["a"]}"#,
        #"{"start":"1","ids":["a"]}"#, #"{"start":1,"ids":[1]}"#, #"{"start":2,"ids":["a",""]}"#,
        #"{"start":1e300,"ids":["a"]}"#, #"{"start":1,"ids":"a"}"#,
    ]) func otherHistoriesAreRefused(json: String) {
        #expect(refusal { try history(json) } == .badMember("_revisions"))
    }

    @Test func historiesAreBounded() throws {
        func json(_ count: Int, _ length: Int) -> String {
            let ids = [String](
                repeating: "\"" + String(repeating: "a", count: length) + "\"",
                count: count
            )
            return "{\"start\":5000,\"ids\":[\(ids.joined(separator: ","))]}"
        }
        #expect(try history(json(1_000, 32)).digests.count == 1_000)
        #expect(refusal { try history(json(1_001, 32)) } != nil)
        #expect(refusal { try history(json(1_000, 66)) } != nil)
        #expect(refusal { try history(json(1, 249)) } != nil)
        #expect(try history(json(1, 248)).start == 5_000)
    }

    @Test func historyOfAncestorsEndsAtAGap() throws {
        let revisions = try ["5-e", "4-d", "2-b"].map { try #require(RevisionID($0)) }
        let history = RevisionHistory(of: revisions[0], ancestors: revisions.dropFirst())
        #expect(history.revisions.map(\.description) == ["5-e", "4-d"])
    }

    @Test func openRevisionsAreAllOrListed() throws {
        #expect(try OpenRevisions("all") == .all)
        #expect(try OpenRevisions(#"["9-nope","x"]"#) == .listed(["9-nope", "x"]))
        #expect(try OpenRevisions("[]") == .listed([]))
        for text in ["", "ALL", "\"all\"", "[1]", "{}", "1-a,2-b"] {
            #expect(refusal { try OpenRevisions(text) } == .badOpenRevisions)
        }
        let many = "[" + [String](repeating: "\"1-a\"", count: 10_001).joined(separator: ",") + "]"
        #expect(refusal { try OpenRevisions(many) } == .tooMany("open_revs"))
    }
}

@Suite struct SequenceTokenTests {
    @Test(
        arguments: [
            ("0", 0, 0, 0), ("5", 5, 0, 0), ("6:4", 4, 6, 0), ("3::5", 5, 0, 3), ("2:6:4", 4, 6, 2),
            ("18446744073709551615", .max, 0, 0),
        ] as [(String, UInt64, UInt64, UInt64)]
    ) func tokenPrintsAsItIsParsed(
        text: String,
        sequence: UInt64,
        trigger: UInt64,
        low: UInt64
    ) throws {
        let token = try SequenceToken(text)
        #expect(token == SequenceToken(sequence, trigger: trigger, low: low))
        #expect(token.description == text)
        #expect(try SequenceToken("\"\(text)\"") == token)
    }

    @Test(arguments: [
        ("", "0"), ("\"\"", "0"), ("007", "7"), ("0:5", "5"), ("0::5", "5"), ("9::5", "5"),
        ("9:6:4", "6:4"),
        ("8~a3,f:5", "5"), ("8~0:8", "8"), ("5::5", "5"),
    ]) func tokenHasOneMeaning(text: String, printed: String) throws {
        #expect(try SequenceToken(text).description == printed)
    }

    @Test(arguments: [("5", "5"), ("6:4", "6:4"), ("3::5", "3"), ("2:6:4", "2"), ("7:6:9", "6:9")])
    func feedResumesWithoutALowSequence(text: String, resumption: String) throws {
        #expect(try SequenceToken(text).resumption.description == resumption)
    }

    @Test(arguments: [
        "abc", "-1", "+1", "1.0", " 1", "1 ", ":", "1:", ":1", "::", "1::", "::1", "1:2:3:4",
        "1:2:", "a:1", "1:a",
        "18446744073709551616", "\"5", "5~a", "5~:3", "~a:3", "5~a:6", "5~a b:3", "5~a:3:2",
        "1:5~a:3", "\"\"5\"\"",
        "now", "{}",
    ]) func malformedSequenceTokenIsRefused(text: String) {
        #expect(refusal { try SequenceToken(text) } == .badSequence)
    }

    @Test func overlongSequenceTokenIsRefused() {
        #expect(refusal { try SequenceToken(String(repeating: "0", count: 1_025)) } == .badSequence)
    }

    @Test(arguments: [("5", "5"), ("6:4", "\"6:4\""), ("3::5", "\"3::5\"")])
    func compositeTokensAreStringsInRows(text: String, json: String) throws {
        let token = try SequenceToken(text)
        #expect(written { token.append(to: $0) } == json)
    }

    /// Back-filled rows come before the row of the grant, and behind everything older than it.
    @Test func tokensAreOrderedAsTheFeedSendsThem() throws {
        let texts = ["0", "4", "5", "6:4", "6:5", "6", "6::9", "7", "8:3", "8:9", "8"]
        let tokens = try texts.map { try SequenceToken($0) }
        #expect(Array(tokens.reversed()).sorted() == tokens)
        for (place, token) in tokens.enumerated() {
            for later in tokens[(place + 1)...] {
                #expect(token < later)
                #expect(!(later < token))
            }
        }
    }
}
