import Bytes
import Testing
import Vocabulary

/// A stored value with these attributes.
func xattrs(_ pairs: KeyValuePairs<String, String>, body: String = "") -> [UInt8] {
    let writer = ByteWriter()
    let attributes = XattrWriter.begin(writer)
    for (name, text) in pairs {
        viewing(Array(name.utf8)) { name in
            viewing(Array(text.utf8)) { attributes.append(key: name, value: $0) }
        }
    }
    _ = attributes.end()
    writer.append(text: body)
    return writer.bytes
}

@Suite struct XattrTests {
    @Test func writtenAttributesAreReadBack() {
        let value = xattrs(["_sync": #"{"rev":1}"#, "user": "2", "_x": ""], body: "body")
        viewing(value) { value in
            guard let blob = XattrBlob(value) else {
                Issue.record("the written form is valid")
                return
            }
            let found = blob.map { "\($0.key.text)=\($0.value.text)" }
            #expect(found == [#"_sync={"rev":1}"#, "user=2", "_x="])
            #expect(blob.body.text == "body")
            #expect(blob.hasSystemKeys && !blob.isEmpty)
            #expect(blob.byteCount == value.count - 4)
            #expect(viewing(Array("user".utf8)) { blob.value(of: $0)?.text } == "2")
            #expect(viewing(Array("use".utf8)) { blob.value(of: $0)?.text } == nil)
            #expect(XattrBlob.body(of: value, .xattr).text == "body")
            #expect(XattrBlob.body(of: value, .json).equals(value))
            #expect(XattrBlob(stored: value).pairs.equals(blob.pairs))
            #expect(blob.systemBytes == 4 + 5 + 1 + 9 + 1 + 4 + 2 + 1 + 0 + 1)
        }
    }

    @Test func writerWithoutPairsAppendsNothing() {
        let writer = ByteWriter()
        writer.append(text: "before")
        #expect(!XattrWriter.begin(writer).end())
        #expect(writer.view.text == "before")
        viewing(xattrs(["user": "1"])) { value in
            let blob = XattrBlob(stored: value)
            #expect(!XattrWriter.appendSystemPairs(of: blob, to: writer))
            #expect(!blob.hasSystemKeys)
        }
        #expect(writer.view.text == "before")
    }

    @Test func onlySystemPairsAreCopied() {
        let writer = ByteWriter()
        viewing(xattrs(["a": "1", "_b": "2", "c": "3", "_d": "4"], body: "body")) { value in
            let isAny = XattrWriter.appendSystemPairs(of: XattrBlob(stored: value), to: writer)
            #expect(isAny)
        }
        #expect(writer.bytes == xattrs(["_b": "2", "_d": "4"]))
    }

    static let invalid: [(String, [UInt8])] = [
        ("no total", [0, 0, 0]),
        ("total beyond the end", [0, 0, 0, 1]),
        ("a part of a length", [0, 0, 0, 3, 0, 0, 0]),
        ("pair beyond the total", [0, 0, 0, 7, 0, 0, 0, 4, 97, 0, 0]),
        ("pair of no bytes", [0, 0, 0, 4, 0, 0, 0, 0]),
        ("pair of two bytes", [0, 0, 0, 6, 0, 0, 0, 2, 97, 0]),
        ("no key", [0, 0, 0, 7, 0, 0, 0, 3, 0, 49, 0]),
        ("no NUL after the key", [0, 0, 0, 7, 0, 0, 0, 3, 97, 49, 0]),
        ("no NUL at the end", [0, 0, 0, 7, 0, 0, 0, 3, 97, 0, 49]),
        ("NUL in the value", [0, 0, 0, 9, 0, 0, 0, 5, 97, 0, 49, 0, 0]),
        (
            "a key of 16 bytes",
            [0, 0, 0, 22, 0, 0, 0, 18] + [UInt8](repeating: 97, count: 16) + [0, 0]
        ),
        ("a length of 2^32 - 1", [0, 0, 0, 7, 255, 255, 255, 255, 97, 0, 0]),
        ("a key twice", xattrs(["a": "1", "b": "2", "a": "3"])),
    ]

    @Test(arguments: invalid) func invalidFormIsRefused(_ name: String, _ value: [UInt8]) {
        let isRefused = viewing(value) { XattrBlob($0) == nil }
        #expect(isRefused, "\(name)")
    }

    @Test func keysOfOneAndFifteenBytesAreValid() {
        let long = String(repeating: "k", count: 15)
        let value = xattrs(["k": "1", "\(long)": "2", "\(long.dropLast())": "3"])
        let count = viewing(value) { value in XattrBlob(value)?.reduce(0) { sum, _ in sum + 1 } }
        #expect(count == 3)
    }

    @Test func noPairsAreValidAndEmpty() {
        let isEmpty = viewing([0, 0, 0, 0, 1]) { value in
            XattrBlob(value).map { $0.isEmpty && $0.body.count == 1 && !$0.hasSystemKeys }
        }
        #expect(isEmpty == true)
    }

    @Test func systemAttributesHaveTheirOwnBound() {
        let large = String(repeating: "1", count: Limits.systemXattrBytesMax - 8)
        let cases: [(key: String, value: String, isWithin: Bool)] = [
            ("_a", large, true), ("_a", large + "1", false), ("a", large + "1", true),
        ]
        for (key, value, isWithin) in cases {
            let stored = xattrs(["\(key)": "\(value)"])
            #expect(viewing(stored) { XattrBlob.isWithinLimits($0, .xattr) } == isWithin)
        }
    }

    @Test(arguments: [-1, 0, 1])
    func numberOfAttributesIsBounded(_ more: Int) {
        let count = Limits.xattrCountMax + more
        var pairs: [UInt8] = []
        for number in 0..<count {
            let pair = Array("k\(number)".utf8) + [0, 0x31, 0]
            pairs += [0, 0, 0, UInt8(pair.count)] + pair
        }
        let total = withUnsafeBytes(of: UInt32(pairs.count).bigEndian) { Array($0) }
        let value = total + pairs + Array("body".utf8)
        #expect(viewing(value) { XattrBlob.hasTooManyPairs($0) } == (more > 0))
        #expect(viewing(value) { XattrBlob.isWithinLimits($0, .xattr) } == (more <= 0))
        // Other nodes' versions are not bounded: each of them was accepted before.
        let read = viewing(value) { value in XattrBlob(value)?.reduce(0) { sum, _ in sum + 1 } }
        #expect(read == count)
    }

    @Test(arguments: invalid) func invalidFormHasNotTooManyPairs(_ name: String, _ value: [UInt8]) {
        #expect(!viewing(value) { XattrBlob.hasTooManyPairs($0) }, "\(name)")
    }

    @Test func randomBytesAreRefusedOrReadWithinTheirBounds() {
        var random = SeededRandom(seed: 19)
        for _ in 0..<20_000 {
            var bytes = xattrs(["a": "12", "_b": "34"], body: "body")
            for _ in 0..<Int(random.next() % 4) {
                bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(
                    truncatingIfNeeded: random.next() % 24
                )
            }
            bytes.removeLast(Int(random.next() % 6))
            let isWhole = viewing(bytes) { value in
                guard let blob = XattrBlob(value) else { return true }
                let sum = blob.reduce(0) { $0 + $1.key.count + $1.value.count + 6 }
                return sum == blob.pairs.count && 4 + sum + blob.body.count == value.count
            }
            #expect(isWhole)
        }
    }
}
