import Bytes
import SyncWire
import Testing

@Suite struct DocumentBodyTests {
    @Test func bodySplitsIntoMembersOfGatewayAndUser() throws {
        let body = try document(
            #"""
            {"tag":"public","_rev":"2-b","_id":"t1","_deleted":true,"A":1,"_exp":60,"":0,
             "_attachments":{"b":{"stub":true,"revpos":1},"a":{}},"_revisions":{"start":2,"ids":["b","a"]}}
            """#
        )
        #expect(body.own.id == "t1")
        #expect(body.own.revision == "2-b")
        #expect(body.own.isDeleted)
        #expect(!body.own.isRemoved)
        #expect(body.own.attachments == Array(#"{"a":{},"b":{"revpos":1,"stub":true}}"#.utf8))
        #expect(try body.own.history().revisions.map(\.description) == ["2-b", "1-a"])
        #expect(try body.own.documentExpiry() == .seconds(60))
        #expect(body.content.bytes == Array(#"{"":0,"A":1,"tag":"public"}"#.utf8))
        let text = written { body.content.append(with: body.own, to: $0) }
        #expect(
            text
                == #"{"":0,"A":1,"_attachments":{"a":{},"b":{"revpos":1,"stub":true}},"_deleted":true,"#
                + #""_exp":60,"_id":"t1","_rev":"2-b","_revisions":{"ids":["b","a"],"start":2},"tag":"public"}"#
        )
    }

    @Test(
        arguments: [
            ("[]", .badJSON), ("1", .badJSON), ("not json", .badJSON), ("", .badJSON),
            (#"{"tag":"public","_foo":1}"#, .userProperty), (#"{"_":1}"#, .userProperty),
            (#"{"\u005ffoo":1}"#, .userProperty), (#"{"_sync":{}}"#, .userProperty),
            (#"{"_id":1}"#, .badMember("_id")), (#"{"_deleted":1}"#, .badMember("_deleted")),
            (#"{"_deleted":"yes"}"#, .badMember("_deleted")),
            (#"{"_attachments":[]}"#, .badAttachments),
        ] as [(String, RequestRefusal)]
    ) func invalidBodyIsRefusedWithItsReason(json: String, expected: RequestRefusal) {
        #expect(refusal { try document(json) } == expected)
    }

    @Test(
        arguments: [
            (#"{"_rev":"1-a"}"#, ["1-a"]), (#"{"_rev":"5-a","_revisions":null}"#, ["5-a"]),
            (#"{"_rev":"0-a"}"#, nil), (#"{"_revisions":[]}"#, nil), ("{}", nil),
            (#"{"_rev":"1-a","_revisions":{}}"#, nil),
        ] as [(String, [String]?)]
    ) func bodyWithoutRevisionListHasOneRevision(json: String, expected: [String]?) throws {
        let own = try document(json).own
        let found = try? own.history().revisions.map(\.description)
        #expect(found == expected)
    }

    @Test func largeDocumentsAreRefused() {
        let text = "{\"a\":\"" + String(repeating: "x", count: 20 << 20) + "\"}"
        #expect(refusal { try document(text) } == .documentTooLarge)
    }

    /// Reasons that the recorded gateway answers.
    @Test func reasonsAreTheRecordedOnes() {
        #expect(RequestRefusal.badJSON.reason == "Bad JSON")
        #expect(
            RequestRefusal.userProperty.reason
                == "user defined top level properties beginning with '_' are not allowed in document body"
        )
        #expect(RequestRefusal.badMember("_revisions").reason == "Bad _revisions")
    }

    /// MD5 of each input is the digest that the recorded gateway answered, in the last column.
    @Test(
        arguments: [
            (
                #"{"tag":"public","owner":"jane","n":1}"#, nil,
                #"{"n":1,"owner":"jane","tag":"public"}"#,
                "fc5dde8cea54343d97c45c8d25ecf83f"
            ),
            (
                #"{"tag":"public","owner":"jane","n":5}"#, nil,
                #"{"n":5,"owner":"jane","tag":"public"}"#,
                "7b81e01d1634f8f9faeb1259f0211369"
            ),
            (
                #"{"tag":"public","owner":"jane","_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}}"#,
                #"{"a.txt":{"content_type":"text/plain","digest":"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=","length":5,"revpos":1,"stub":true}}"#,
                #"{"_attachments":{"a.txt":{"content_type":"text/plain","digest":"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=","length":5,"revpos":1,"stub":true}},"owner":"jane","tag":"public"}"#,
                "4af538dccddc1de94d93b24764491400"
            ),
        ] as [(String, String?, String, String)]
    ) func digestInputIsThatOfTheRecordedRevision(
        json: String,
        attachments: String?,
        canonical: String,
        digest: String
    ) throws {
        let body = try document(json)
        let text = written {
            body.content.appendDigestInput(
                parent: nil,
                attachments: attachments.map { Array($0.utf8) },
                deletion: body.own.deletion,
                to: $0
            )
        }
        #expect(text == "\u{0}" + canonical)
        #expect(digest.utf8.count == 32)
    }

    @Test(
        arguments: [
            ("{}", nil, "{}"), ("{}", true, #"{"_deleted":true}"#),
            (#"{"a":1}"#, false, #"{"_deleted":false,"a":1}"#),
            (#"{"A":1}"#, true, #"{"A":1,"_deleted":true}"#),
            (#"{"A":1,"a":2}"#, nil, #"{"A":1,"a":2}"#),
            (#"{"A":1,"a":2}"#, true, #"{"A":1,"_deleted":true,"a":2}"#),
        ] as [(String, Bool?, String)]
    ) func digestInputHasParentAndDeletion(
        json: String,
        deletion: Bool?,
        canonical: String
    ) throws {
        let body = try document(json)
        let parent = try #require(RevisionID("1-abc"))
        let text = written {
            body.content.appendDigestInput(
                parent: parent,
                attachments: nil,
                deletion: deletion,
                to: $0
            )
        }
        #expect(text == "\u{5}1-abc" + canonical)
    }

    @Test func storedContentIsReadAgain() throws {
        for json in [
            #"{"b":{"d":1,"c":2},"A":[],"_id":"x"}"#, #"{"A":"},\"_","B":[{}],"z":1}"#,
            #"{"":0,"&":1,"\\":2,"a":3}"#, #"{"A":1,"\u2028":2}"#, #"{"\ufffd":1}"#, "{}",
        ] {
            let body = try document(json)
            #expect(DocumentContent(canonical: body.content.bytes) == body.content, "\(json)")
        }
        #expect(try document(#"{"_id":"x"}"#).content == .empty)
    }

    @Test(
        arguments: [
            ("0", nil), ("null", nil), ("60", .seconds(60)), ("2592000", .seconds(2_592_000)),
            ("2592001", .unixSeconds(2_592_001)), (#""60""#, .seconds(60)),
            (#""2026-11-22T19:04:32Z""#, .unixSeconds(1_795_374_272)),
            (#""2026-11-22T19:04:32.25+01:00""#, .unixSeconds(1_795_370_672)),
            (#""2024-02-29T00:00:00-00:30""#, .unixSeconds(1_709_166_600)),
            ("60.9", .seconds(60)),
        ] as [(String, DocumentExpiry?)]
    ) func expiryIsSecondsOrTime(json: String, expected: DocumentExpiry?) throws {
        #expect(try DocumentExpiry.parse(Array(json.utf8)) == expected)
    }

    @Test(arguments: [
        "-1", "4294967296", "true", "[]", "\"\"", "\"soon\"", "\"2026-02-29T00:00:00Z\"",
        "\"2026-13-01T00:00:00Z\"", "\"2026-11-22T19:04:32\"", "\"2026-11-22T24:00:00Z\"",
        "\"1969-12-31T00:00:00Z\"",
    ]) func otherExpiriesAreRefused(json: String) {
        #expect(refusal { try DocumentExpiry.parse(Array(json.utf8)) } == .badExpiry)
    }
}
