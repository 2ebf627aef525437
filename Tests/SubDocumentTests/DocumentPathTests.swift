import Bytes
import SubDocument
import Testing

/// The parser, by what its paths create in an empty document.
@Suite struct DocumentPathTests {
    private func created(_ path: String) -> Outcome {
        Edit(.dictUpsert, path, "1", makesParents: true).apply(to: "{}")
    }

    @Test(arguments: [
        ("a", #"{"a":1}"#),
        ("a.b.c", #"{"a":{"b":{"c":1}}}"#),
        ("`a`.`b`", #"{"a":{"b":1}}"#),
        ("`a.b`.c", #"{"a.b":{"c":1}}"#),
        ("`a[0]`", #"{"a[0]":1}"#),
        ("`a``b`", #"{"a`b":1}"#),
        ("a``", #"{"a`":1}"#),
        ("````", #"{"`":1}"#),
        ("x`.`y", #"{"x.y":1}"#),
        (#"a\"b"#, #"{"a\"b":1}"#),
        (#"`a\\.b`"#, #"{"a\\.b":1}"#),
        ("é.日本.😀", #"{"é":{"日本":{"😀":1}}}"#),
        (" ", #"{" ":1}"#),
        ("$document", #"{"$document":1}"#),
        ("-1", #"{"-1":1}"#),
    ]) func validPathNamesItsKeys(path: String, document: String) {
        #expect(created(path) == .text(document))
    }

    @Test(arguments: [
        ".", "..", "a..b", ".a", "a.", "a[0].", "[", "a[", "a[0", "a]", "a[]", "a[x]", "a[-2]",
        "a[-]", "a[1x]", "a[+1]", "a[ 1]", "a[0]b", "`", "``", "```", "`a", "a`", "a.``.b", #"""#,
        #"a""#, #"\"#, #"a\u0041"#, #"\x"#, "a\u{1}", "a\n", #"`a\`"#, "a[-1", "a[-1x]",
    ]) func textThatIsNoPathIsInvalid(path: String) {
        #expect(get(path, "{}") == .failure(.invalidPath))
        #expect(created(path) == .failure(.invalidPath))
    }

    @Test func pathThatIsNotUTF8IsInvalid() {
        for bytes in [[0x80], [0x61, 0xc3], [0xed, 0xa0, 0x80], [0xff, 0x2e, 0x61]] as [[UInt8]] {
            #expect(throws: PathFailure.invalidPath) {
                try bytes.withView { _ = try DocumentPath($0, isAttribute: false) }
            }
        }
    }

    @Test(arguments: [
        ("[1]", "[0,[1]]", "[1]"), ("[1][0]", "[0,[1]]", "1"), ("[1].[0]", "[0,[1]]", "1"),
        ("[-1].[-1]", "[0,[1,2]]", "2"), ("a[1].b", #"{"a":[0,{"b":2}]}"#, "2"),
        ("a.[1]", #"{"a":[0,3]}"#, "3"), ("[00]", "[4]", "4"),
    ]) func indexesFollowKeysWithAndWithoutDots(path: String, document: String, value: String) {
        #expect(get(path, document) == .text(value))
    }

    @Test func hugeIndexIsNotFound() {
        for index in ["4294967296", "99999999999999999999999999999999", "2147483648"] {
            #expect(get("[\(index)]", "[1]") == .failure(.notFound))
            #expect(Edit(.insert, "[\(index)]", "1").apply(to: "[]") == .failure(.notFound))
        }
    }

    @Test func pathHasAtMost1024Bytes() {
        let name = String(repeating: "n", count: 1_024)
        #expect(created(name) == .text("{\"\(name)\":1}"))
        #expect(created(name + "n") == .failure(.pathTooLong))
    }

    @Test func pathHasAtMost32Components() {
        let names = Array(repeating: "n", count: 32).joined(separator: ".")
        #expect(get(names, "{}") == .failure(.notFound))
        #expect(get(names + ".n", "{}") == .failure(.pathTooLong))
        #expect(get(firstIndexes(32), nested(32, "7")) == "7")
        #expect(get(firstIndexes(33), nested(32, "7")) == .failure(.pathTooLong))
    }

    @Test(arguments: [
        ("_sync", "_sync"), ("_sync.rev", "_sync"), ("$document.CAS", "$document"),
        ("tags[0]", "tags"), ("fifteen-bytes-k", "fifteen-bytes-k"), ("a.`b.c`", "a"),
    ]) func attributesPathBeginsWithItsKey(path: String, key: String) {
        let found = withPath(path, isAttribute: true) { .text($0.attributeKey.text) }
        #expect(found == .text(key))
    }

    @Test(arguments: [
        "`_sync`", "_sync`", "sixteen-bytes-ke", "[0]", #"a\"b"#, ".a", "``",
    ]) func invalidAttributeKeyIsAnInvalidPath(path: String) {
        let outcome = withPath(path, isAttribute: true) { _ in "" }
        #expect(outcome == .failure(.invalidPath))
    }

    @Test func emptyAttributePathHasInvalidArguments() {
        #expect(withPath("", isAttribute: true) { _ in "" } == .failure(.invalidArguments))
    }

    @Test func pathWithoutItsFirstComponentAppliesToTheAttributesValue() {
        func value(_ path: String, _ attribute: String) -> Outcome {
            withPath(path, isAttribute: true) { path in
                Array(attribute.utf8).withView { attribute in
                    let result = PathLookup.value(at: path.withoutFirst, in: attribute)
                    return switch result {
                    case .success(let value): .text(value.text)
                    case .failure(let failure): .failure(failure)
                    }
                }
            }
        }
        #expect(value("_sync.rev", #"{"rev":"1-a"}"#) == #""1-a""#)
        #expect(value("_sync.rev[1]", #"{"rev":[1,2]}"#) == "2")
        #expect(value("_sync", #" {"rev":1} "#) == #"{"rev":1}"#)
        #expect(value("_sync", "5") == "5")
        #expect(value("_sync.x", "5") == .failure(.mismatch))
    }

    @Test func newRootFitsTheFirstEdit() {
        func root(_ operation: EditOperation, _ path: String) -> Outcome {
            withPath(path) { .text("\(PathEdit.newRoot(for: operation, at: $0))") }
        }
        #expect(root(.pushLast, "") == "[]")
        #expect(root(.addUnique, "") == "[]")
        #expect(root(.pushFirst, "a") == "{}")
        #expect(root(.insert, "[0]") == "[]")
        #expect(root(.dictUpsert, "a.b") == "{}")
        #expect(root(.counter, "n") == "{}")
    }
}
