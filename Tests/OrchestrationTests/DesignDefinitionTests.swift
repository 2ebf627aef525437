import Orchestration
import Testing
import Vocabulary

/// The rules of a design document's text, and what the text defines.
@Suite struct DesignDefinitionTests {
    struct Refusal: Sendable {
        let text: String
        let sentence: String

        init(_ text: String, _ sentence: String) {
            self.text = text
            self.sentence = sentence
        }
    }

    private static let refusals = [
        Refusal("", "The design document is not valid JSON."),
        Refusal(#"{"views":{}"#, "The design document is not valid JSON."),
        Refusal("{\"a\":\"\u{1}\"}", "The design document is not valid JSON."),
        Refusal("[]", "The design document is not a JSON object."),
        Refusal(#""views""#, "The design document is not a JSON object."),
        Refusal(
            String(repeating: "[", count: 65) + String(repeating: "]", count: 65),
            "The design document nests deeper than 64 levels, or has a number that is too large for "
                + "a double."
        ),
        Refusal(
            #"{"a":1e400}"#,
            "The design document nests deeper than 64 levels, or has a number that is too large for "
                + "a double."
        ),
        Refusal(#"{"views":[]}"#, #"The member "views" is not a JSON object."#),
        Refusal(#"{"views":null}"#, #"The member "views" is not a JSON object."#),
        Refusal(#"{"views":{"":{"map":"m"}}}"#, "The name of a view is empty."),
        Refusal(
            #"{"views":{" v":{"map":"m"}}}"#,
            #"The name of the view " v" begins or ends with a blank."#
        ),
        Refusal(
            #"{"views":{"v\t":{"map":"m"}}}"#,
            "The name of the view \"v\t\" begins or ends with a blank."
        ),
        Refusal(#"{"views":{"v":"m"}}"#, #"The view "v" is not a JSON object."#),
        Refusal(
            #"{"views":{"v":{"reduce":"_sum"}}}"#,
            #"The view "v" has no map function (member "map")."#
        ),
        Refusal(
            #"{"views":{"v":{"map":7}}}"#,
            #"The map function of the view "v" is not a string."#
        ),
        Refusal(
            #"{"views":{"v":{"map":"m","reduce":null}}}"#,
            #"The reduce function of the view "v" is not a string."#
        ),
        Refusal(
            #"{"views":{"v":{"map":"m","reduce":"_sum "}}}"#,
            #"The view "v" has the reduce function "_sum ", which is not built in. "#
                + "The built-in ones are _count, _sum and _stats."
        ),
        Refusal(
            #"{"views":{"w":{"map":"m"},"v":{"map":"m","reduce":"_approx_count_distinct"}}}"#,
            #"The view "v" has the reduce function "_approx_count_distinct", which is not built in. "#
                + "The built-in ones are _count, _sum and _stats."
        ),
        Refusal(
            #"{"views":{"v":{"map":"m"},"v":{"map":"n"}}}"#,
            #"The view "v" is defined more than once."#
        ),
        Refusal(
            #"{"view":{"v":{"map":"m"}}}"#,
            #"The design document has the member "view", which means nothing. Its members are "#
                + "views, options, language, index_xattr_on_deleted_docs, spatial, _id, _rev."
        ),
        Refusal(
            #"{"views":{"v":{"map":"m","reduec":"_count"}}}"#,
            #"The view "v" has the member "reduec", which means nothing. Its members are map, reduce."#
        ),
        Refusal(
            #"{"options":{"updateMinChange":1}}"#,
            #"The member "options" has the member "updateMinChange", which means nothing. "#
                + "Its members are updateMinChanges, replicaUpdateMinChanges, "
                + "index_xattr_on_deleted_docs, local_seq, include_design, raw."
        ),
        Refusal(
            #"{"language":"erlang"}"#,
            #"The member "language" is not "javascript", the only one there is."#
        ),
        Refusal(
            #"{"spatial":{"p":"function (doc) {}"}}"#,
            #"The member "spatial" is not empty: there are no spatial views."#
        ),
        Refusal(#"{"options":true}"#, #"The member "options" is not a JSON object."#),
        Refusal(
            #"{"index_xattr_on_deleted_docs":"true"}"#,
            #"The option "index_xattr_on_deleted_docs" is neither true nor false."#
        ),
        Refusal(
            #"{"options":{"index_xattr_on_deleted_docs":1}}"#,
            #"The option "index_xattr_on_deleted_docs" is neither true nor false."#
        ),
        Refusal(
            #"{"options":{"updateMinChanges":-1}}"#,
            #"The option "updateMinChanges" is not a whole number of 0 or more."#
        ),
        Refusal(
            #"{"options":{"replicaUpdateMinChanges":"5"}}"#,
            #"The option "replicaUpdateMinChanges" is not a whole number of 0 or more."#
        ),
    ]

    @Test(arguments: refusals) func brokenRuleIsNamedInTheRefusal(_ refusal: Refusal) {
        #expect(throws: DesignFlaw(refusal.sentence)) {
            try DesignDefinition(of: Array(refusal.text.utf8))
        }
    }

    @Test func viewsAndOptionsAreRead() throws {
        let text = """
            {"language": "javascript", "spatial": {}, "_id": "_design/x",
             "views": {"by é": {"map": "m\\n1"}, "a": {"map": "m2", "reduce": "_count"},
                       "custom": {"map": "m3", "reduce": "function (k, v, r) { return 1; }"}},
             "options": {"index_xattr_on_deleted_docs": true, "updateMinChanges": 0,
                         "replicaUpdateMinChanges": 7, "local_seq": true}}
            """
        let definition = try DesignDefinition(of: Array(text.utf8))
        #expect(definition.views.map(\.name) == ["by é", "a", "custom"])
        #expect(definition.views.map(\.map) == ["m\n1", "m2", "m3"])
        #expect(definition.views.map(\.hasCustomReduce) == [false, false, true])
        #expect(definition.view(named: "a")?.reduce == "_count")
        #expect(definition.view(named: "A") == nil)
        #expect(definition.options.indexesTombstones)
        #expect(definition.options.updateMinChanges == 0)
        #expect(definition.options.replicaUpdateMinChanges == 7)
    }

    @Test func optionOfTombstonesIsReadBesideTheViews() throws {
        let text = #"{"views":{"v":{"map":"m"}},"index_xattr_on_deleted_docs":true}"#
        let definition = try DesignDefinition(of: Array(text.utf8))
        #expect(definition.options.indexesTombstones)
    }

    @Test(arguments: ["{}", #"{"views":{}}"#, #"{"options":{}}"#])
    func documentWithoutViewsIsAccepted(_ text: String) throws {
        #expect(try DesignDefinition(of: Array(text.utf8)) == DesignDefinition())
    }

    @Test func documentWithTooManyViewsIsRefused() throws {
        func text(_ count: Int) -> [UInt8] {
            let views = (0..<count).map { #""v\#($0)":{"map":"m"}"# }
            return Array(#"{"views":{\#(views.joined(separator: ","))}}"#.utf8)
        }
        #expect(try DesignDefinition(of: text(Limits.viewsMax)).views.count == Limits.viewsMax)
        let sentence = "The design document has 257 views; at most 256 are possible."
        #expect(throws: DesignFlaw(sentence)) { try DesignDefinition(of: text(257)) }
    }

    @Test func nameThatIsNoKeyIsRefused() throws {
        try DesignDefinition.check(name: "dev_x")
        try DesignDefinition.check(name: String(repeating: "n", count: 242))
        #expect(throws: DesignFlaw("The name of the design document is empty.")) {
            try DesignDefinition.check(name: "")
        }
        let sentence = "The name of the design document has 244 bytes; at most 242 are possible."
        #expect(throws: DesignFlaw(sentence)) {
            try DesignDefinition.check(name: String(repeating: "é", count: 122))
        }
    }

    // MARK: The document

    @Test func blanksBetweenTokensAreRemovedAndInsideStringsKept() {
        let text = "{ \"a b\" :\t\"c \\\" d\\\\\" ,\r\n \"e\" : [ 1 , 2 ] }"
        let compact = DesignDocument.compacted(Array(text.utf8))
        #expect(String(decoding: compact, as: UTF8.self) == #"{"a b":"c \" d\\","e":[1,2]}"#)
    }

    /// Clients cache by the revision, so an upgrade must not change it.
    @Test func revisionIsNumberAndDigest() {
        let document = DesignDocument(name: "dev_x", body: Array("{}".utf8), number: 12)
        #expect(document.id == "_design/dev_x" && document.isDevelopment)
        #expect("\(document.revision)" == "12-a3a6bf43")
        let padded = DesignRevision(number: 1, digest: 0x9bdf)
        #expect("\(padded)" == "1-00009bdf")
        #expect(!DesignDocument(name: "x_dev_", body: [], number: 1).isDevelopment)
    }

    /// A text of a release with other rules: the state keeps it, and this release uses none of it.
    @Test func designDocumentWithUnreadableTextHasNoViews() {
        let document = DesignDocument(name: "x", body: Array(#"{"views":[]}"#.utf8), number: 1)
        #expect(document.definition == DesignDefinition())
    }

    @Test func updateSettingsReplaceOnlyTheirOptions() {
        func changed(_ text: String, _ changes: Int?, _ replicaChanges: Int?) -> String {
            let document = DesignDocument(name: "x", body: Array(text.utf8), number: 1)
            let body = document.body(
                updateMinChanges: changes,
                replicaUpdateMinChanges: replicaChanges
            )
            return String(decoding: body, as: UTF8.self)
        }
        let views = #"{"views":{"v":{"map":"function (d) { emit(\"é\\n\", 1.5); }"}}"#
        #expect(changed(views + "}", 5, nil) == views + #","options":{"updateMinChanges":5}}"#)
        #expect(changed(views + "}", nil, nil) == views + "}")
        let before =
            #"{"options":{"index_xattr_on_deleted_docs":true,"updateMinChanges":5},"language":"js"}"#
        let after =
            #"{"options":{"index_xattr_on_deleted_docs":true,"updateMinChanges":0,"#
            + #""replicaUpdateMinChanges":9},"language":"js"}"#
        #expect(changed(before, 0, 9) == after)
        #expect(changed(after, 0, 9) == after)
    }
}
