import Bytes
import SubDocument
import Testing

/// Edits as tables: the new document byte by byte.
@Suite struct PathEditTests {
    @Test(arguments: [
        (Edit(.dictAdd, "a", "1"), "{}", #"{"a":1}"#),
        (Edit(.dictAdd, "a", "1"), " { } ", #" {"a":1 } "#),
        (Edit(.dictAdd, "b", " [1, 2] "), #"{ "a" : 1 }"#, #"{ "a" : 1,"b":[1, 2] }"#),
        (Edit(.dictAdd, "b.c", "1"), #"{"b":{"x":0},"d":2}"#, #"{"b":{"x":0,"c":1},"d":2}"#),
        (Edit(.dictAdd, "l[0].c", "1"), #"{"l":[{}]}"#, #"{"l":[{"c":1}]}"#),
        (Edit(.dictAdd, "l[-1].c", "1"), #"{"l":[{},{}]}"#, #"{"l":[{},{"c":1}]}"#),
        (Edit(.dictUpsert, "a", "2"), #"{"a": 1 ,"b":3}"#, #"{"a": 2 ,"b":3}"#),
        (Edit(.dictUpsert, "é", "2"), #"{"\u00e9":1}"#, #"{"\u00e9":2}"#),
        (Edit(.dictUpsert, "a.b", "1", makesParents: true), #"{"a":{}}"#, #"{"a":{"b":1}}"#),
        (
            Edit(.dictAdd, "x.y.z", "null", makesParents: true), #"{"a":1 }"#,
            #"{"a":1,"x":{"y":{"z":null}} }"#
        ),
        (
            Edit(.dictAdd, "a.x.y", "0", makesParents: true), #"{"a":{"b":1},"c":2}"#,
            #"{"a":{"b":1,"x":{"y":0}},"c":2}"#
        ),
        (Edit(.replace, "a", #"{"x":[]}"#), #"{"a":1}"#, #"{"a":{"x":[]}}"#),
        (Edit(.replace, "[1]", "true"), "[1, 2, 3]", "[1, true, 3]"),
        (Edit(.replace, "[-1]", "0"), "[1, 2, 3 ]", "[1, 2, 0 ]"),
        (Edit(.delete, "a"), #"{"a":1}"#, "{}"),
        (Edit(.delete, "a"), #"{ "a" : 1 }"#, "{}"),
        (Edit(.delete, "a"), #"{ "a" : 1 , "b" : 2 }"#, #"{ "b" : 2 }"#),
        (Edit(.delete, "b"), #"{ "a" : 1 , "b" : 2 }"#, #"{ "a" : 1 }"#),
        (Edit(.delete, "b"), #"{"a":1, "b":2, "c":3}"#, #"{"a":1, "c":3}"#),
        (Edit(.delete, "[0]"), "[1, 2, 3]", "[2, 3]"),
        (Edit(.delete, "[1]"), "[1, 2, 3]", "[1, 3]"),
        (Edit(.delete, "[-1]"), "[1, 2, 3]", "[1, 2]"),
        (Edit(.delete, "[-1]"), "[ 1 ]", "[]"),
        (Edit(.delete, "a[1].b"), #"{"a":[0,{"b":[1]}]}"#, #"{"a":[0,{}]}"#),
        (Edit(.delete, "a[0]"), #"{"a":["]",{}]}"#, #"{"a":[{}]}"#),
        (Edit(.pushLast, "", "1"), "[]", "[1]"),
        (Edit(.pushLast, "", "1"), " [ ] ", " [1 ] "),
        (Edit(.pushLast, "", "1,2 , 3"), "[0 ]", "[0,1,2 , 3 ]"),
        (Edit(.pushLast, "a", "[1]"), #"{"a":[[0]]}"#, #"{"a":[[0],[1]]}"#),
        (Edit(.pushLast, "a[-1]", "9"), #"{"a":[[],[8]]}"#, #"{"a":[[],[8,9]]}"#),
        (Edit(.pushLast, "a", "1,2", makesParents: true), "{}", #"{"a":[1,2]}"#),
        (Edit(.pushLast, "a.b", "1", makesParents: true), "{}", #"{"a":{"b":[1]}}"#),
        (Edit(.pushFirst, "", "1"), "[]", "[1]"),
        (Edit(.pushFirst, "", "1,2"), "[ 3]", "[1,2, 3]"),
        (Edit(.pushFirst, "a", "0", makesParents: true), #"{"b":1}"#, #"{"b":1,"a":[0]}"#),
        (Edit(.insert, "[0]", "1"), "[]", "[1]"),
        (Edit(.insert, "[0]", "1,2"), "[3]", "[1,2,3]"),
        (Edit(.insert, "[1]", "2"), "[1, 3]", "[1, 2,3]"),
        (Edit(.insert, "[2]", "3"), "[1, 2 ]", "[1, 2,3 ]"),
        (Edit(.insert, "a[0]", "1"), #"{"a":[ ]}"#, #"{"a":[1 ]}"#),
        (Edit(.insert, "[-1][0]", "1"), "[0,[2]]", "[0,[1,2]]"),
        (Edit(.addUnique, "", "1"), "[]", "[1]"),
        (Edit(.addUnique, "", #""1""#), "[1]", #"[1,"1"]"#),
        (Edit(.addUnique, "", "1.0"), "[1]", "[1,1.0]"),
        (Edit(.addUnique, "a", "null", makesParents: true), "{}", #"{"a":[null]}"#),
        (Edit(.counter, "n", "5"), "{}", #"{"n":5}"#),
        (Edit(.counter, "n", "-5"), #"{"n":3}"#, #"{"n":-2}"#),
        (Edit(.counter, "n", "1"), #"{"n": -0 }"#, #"{"n": 1 }"#),
        (Edit(.counter, "[0]", "10"), "[ 5,6]", "[ 15,6]"),
        (Edit(.counter, "[-1]", "10"), "[5,6]", "[5,16]"),
        (Edit(.counter, "a.n", "1", makesParents: true), "{}", #"{"a":{"n":1}}"#),
    ]) func editChangesOnlyItsPath(edit: Edit, document: String, expected: String) {
        #expect(edit.apply(to: document) == .text(expected))
    }

    @Test(arguments: [
        // The path's form.
        (Edit(.dictAdd, "", "1"), "{}", PathFailure.invalidArguments),
        (Edit(.dictUpsert, "", "1"), "{}", .invalidArguments),
        (Edit(.replace, "", "1"), "{}", .invalidArguments),
        (Edit(.delete, ""), "{}", .invalidArguments),
        (Edit(.insert, "", "1"), "[]", .invalidArguments),
        (Edit(.counter, "", "1"), "1", .invalidArguments),
        (Edit(.dictAdd, "a[0]", "1"), #"{"a":[1]}"#, .invalidPath),
        (Edit(.dictUpsert, "a[1]", "1"), #"{"a":[1]}"#, .invalidPath),
        (Edit(.dictUpsert, "a[-1]", "1"), #"{"a":[1]}"#, .invalidPath),
        (Edit(.insert, "[-1]", "1"), "[1]", .invalidPath),
        (Edit(.insert, "[0].a", "1"), "[1]", .invalidPath),
        // Paths without a place.
        (Edit(.dictAdd, "a", "1"), #"{"a":0}"#, .exists),
        (Edit(.dictAdd, "a.b", "1"), "{}", .notFound),
        (Edit(.dictAdd, "a.b", "1"), #"{"a":1}"#, .mismatch),
        (Edit(.dictAdd, "a", "1"), "[]", .mismatch),
        (Edit(.dictAdd, "a", "1"), "1", .mismatch),
        (Edit(.dictAdd, "a.b", "1", makesParents: true), #"{"a":"x"}"#, .mismatch),
        (Edit(.dictAdd, "a.b", "1", makesParents: true), #"{"a":[]}"#, .mismatch),
        (Edit(.dictAdd, "a[0].b", "1", makesParents: true), "{}", .notFound),
        (Edit(.dictAdd, "a[0].b", "1", makesParents: true), #"{"a":[]}"#, .notFound),
        (Edit(.replace, "a", "1", makesParents: true), "{}", .notFound),
        (Edit(.replace, "[1]", "1"), "[0]", .notFound),
        (Edit(.delete, "a"), "{}", .notFound),
        (Edit(.delete, "[-1]"), "[]", .notFound),
        (Edit(.delete, "a.b"), #"{"a":1}"#, .mismatch),
        (Edit(.pushLast, "", "1"), "{}", .mismatch),
        (Edit(.pushLast, "", "1"), "1", .mismatch),
        (Edit(.pushLast, "a", "1"), "{}", .notFound),
        (Edit(.pushLast, "a", "1"), #"{"a":{}}"#, .mismatch),
        (Edit(.pushLast, "a", "1", makesParents: true), #"{"a":"x"}"#, .mismatch),
        (Edit(.pushLast, "a[1]", "1", makesParents: true), #"{"a":[0]}"#, .notFound),
        (Edit(.pushFirst, "", "1"), "{}", .mismatch),
        (Edit(.insert, "[4]", "null"), "[1,2,3]", .notFound),
        (Edit(.insert, "a[0]", "null"), "{}", .notFound),
        (Edit(.insert, "a[0]", "null", makesParents: true), "{}", .notFound),
        (Edit(.insert, "[0]", "null"), "{}", .mismatch),
        (Edit(.insert, "[0]", "null"), #""x""#, .mismatch),
        (Edit(.addUnique, "", "1"), "[0,1]", .exists),
        (Edit(.addUnique, "", #""é""#), #"["\u00e9"]"#, .exists),
        (Edit(.addUnique, "", "null"), "[true,null]", .exists),
        (Edit(.addUnique, "", "2"), "[1,[]]", .mismatch),
        (Edit(.addUnique, "", "2"), "[{},2]", .mismatch),
        (Edit(.addUnique, "", "2"), "[2,{}]", .exists),
        (Edit(.addUnique, "", "1"), "{}", .mismatch),
        // Values.
        (Edit(.dictAdd, "a", ""), "{}", .invalidArguments),
        (Edit(.pushLast, "", ""), "[]", .invalidArguments),
        (Edit(.addUnique, "", ""), "[]", .invalidArguments),
        (Edit(.counter, "a", ""), "{}", .invalidArguments),
        (Edit(.dictAdd, "a", " "), "{}", .cannotInsert),
        (Edit(.dictAdd, "a", "1,2"), "{}", .cannotInsert),
        (Edit(.dictAdd, "a", #"1,"b":2"#), "{}", .cannotInsert),
        (Edit(.replace, "[0]", "1,2"), "[0]", .cannotInsert),
        (Edit(.addUnique, "", "1,2"), "[]", .cannotInsert),
        (Edit(.addUnique, "", "[]"), "[]", .cannotInsert),
        (Edit(.addUnique, "", "{}"), "[]", .cannotInsert),
        (Edit(.insert, "[0]", "1,"), "[]", .cannotInsert),
        // The value is checked before the document.
        (Edit(.dictAdd, "a", "blah"), "[]", .cannotInsert),
        (Edit(.counter, "a", "0"), "garbage", .invalidDelta),
    ]) func editWithoutPlaceOrValueFails(edit: Edit, document: String, failure: PathFailure) {
        #expect(edit.apply(to: document) == .failure(failure))
    }

    @Test(arguments: [
        "tru", "nul", "2.0.0", "2.", "2.0e", "2.0e+", "01", "+1", "-", #""x"#, #""\x""#, "\"\t\"",
        #"{ "foo" }"#, #"{ "foo": }"#, "[1,]", "[1}", "{", "]", ",", ",1", "1,", "1 2", "{}{}",
        #"{"a":1,}"#, "[1 2]", #"["a" "b"]"#, #"{"a",1}"#, "NaN", "\u{feff}1", #""\u12""#, "[,]",
    ]) func valueThatIsNotJSONCannotBeInserted(value: String) {
        let edits = [
            Edit(.dictAdd, "k", value), Edit(.dictUpsert, "k", value), Edit(.replace, "a", value),
            Edit(.pushLast, "l", value), Edit(.pushFirst, "l", value),
            Edit(.insert, "l[0]", value), Edit(.addUnique, "l", value),
        ]
        for edit in edits {
            #expect(edit.apply(to: #"{"a":1,"l":[]}"#) == .failure(.cannotInsert))
        }
    }

    @Test func valueThatIsNotUTF8CannotBeInserted() {
        let value: [UInt8] = [0x22, 0xc3, 0x22]
        let outcome = withPath("a") { path in
            let result = value.withView { value in
                Array("{}".utf8).withView { document in
                    PathEdit.apply(
                        .dictAdd,
                        at: path,
                        value: value,
                        makesParents: false,
                        to: document,
                        into: ByteWriter()
                    )
                }
            }
            guard case .failure(let failure) = result else { return "inserted" }
            return .failure(failure)
        }
        #expect(outcome == .failure(.cannotInsert))
    }

    @Test func documentBecomesAtMost32Deep() {
        #expect(Edit(.dictAdd, "a", nested(31)).apply(to: "{}") == .text("{\"a\":\(nested(31))}"))
        #expect(Edit(.dictAdd, "a", nested(32)).apply(to: "{}") == .failure(.valueTooDeep))
        #expect(Edit(.pushLast, "", nested(31)).apply(to: "[]") == .text(nested(32)))
        #expect(Edit(.pushLast, "", nested(32)).apply(to: "[]") == .failure(.valueTooDeep))
        #expect(Edit(.insert, "[0]", nested(31)).apply(to: "[]") == .text(nested(32)))
        #expect(Edit(.insert, "[0]", nested(32)).apply(to: "[]") == .failure(.valueTooDeep))
        let path = firstIndexes(32)
        #expect(Edit(.replace, path, "2").apply(to: nested(32, "1")) == .text(nested(32, "2")))
        #expect(Edit(.replace, path, "[]").apply(to: nested(32, "1")) == .failure(.valueTooDeep))
        #expect(Edit(.counter, path, "2").apply(to: nested(32, "1")) == .text(nested(32, "3")))
        // The array that a push names is one level more than its path.
        let array = firstIndexes(31)
        #expect(Edit(.pushLast, array, "2").apply(to: nested(32, "1")) == .text(nested(32, "1,2")))
        #expect(Edit(.pushLast, path, "2").apply(to: nested(32)) == .failure(.valueTooDeep))
        #expect(Edit(.addUnique, path, "2").apply(to: nested(32)) == .failure(.valueTooDeep))
        let names = Array(repeating: "n", count: 32).joined(separator: ".")
        let deep = Edit(.dictAdd, names, "1", makesParents: true)
        let document =
            String(repeating: #"{"n":"#, count: 32) + "1" + String(repeating: "}", count: 32)
        #expect(deep.apply(to: "{}") == .text(document))
    }

    @Test func writtenRangeIsTheValueInTheNewDocument() {
        let edits = [
            Edit(.dictAdd, "x.y", #" "value" "#, makesParents: true),
            Edit(.dictUpsert, "a", #""value""#), Edit(.replace, "l[0]", #""value""#),
            Edit(.pushLast, "l", #""value""#), Edit(.pushFirst, "l", #""value""#),
            Edit(.insert, "l[1]", #""value""#), Edit(.addUnique, "l", #""value""#),
        ]
        for edit in edits {
            let outcome = edit.apply(to: Array(#"{"a":1,"l":[1,2]}"#.utf8)) { result, document in
                #expect(result.number == nil)
                let written = result.written.map { String(decoding: document[$0], as: UTF8.self) }
                #expect(written == #""value""#)
            }
            guard case .text = outcome else {
                Issue.record("\(edit): \(outcome)")
                continue
            }
        }
        _ = Edit(.delete, "a").apply(to: Array(#"{"a":1}"#.utf8)) { result, _ in
            #expect(result.number == nil)
            #expect(result.written == nil)
        }
    }
}
