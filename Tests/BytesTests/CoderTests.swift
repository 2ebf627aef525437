import Bytes
import Testing

private struct Part: ExtensibleFields, Equatable {
    var number: UInt64 = 0
    var text = ""
    var bytes: [UInt8] = []
    var limit: UInt32?

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.field(&text, "text")
        try coder.field(&bytes, "bytes")
        try coder.field(&limit, "limit")
    }
}

private struct Whole: CodedFields, Equatable {
    enum State: UInt8 {
        case off = 1
        case on = 4
    }

    var part = Part()
    var list: [Part] = []
    var name: String?
    var most: UInt16?
    var boot: UInt64 = 0
    var state = State.off
    var isFirst = false
    var isLast = false
    var key: [UInt8] = [0, 0]
    var rising: [UInt64] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&part, "part")
        try coder.field(&list, "list")
        try coder.optional(&name, "name")
        try coder.optional(&most, "most")
        try coder.fixed(&boot, "boot")
        try coder.choice(&state, "state")
        try coder.flags(&isFirst, &isLast, name: "flags")
        try coder.bytes(&key, count: 2, "key")
        var last: UInt64 = 0
        try coder.list(&rising, "rising", blank: 0) { coder, number throws(CodingFailure) in
            try coder.difference(&number, to: last, "difference")
            last = number
        }
        let bound = rising.allSatisfy { $0 < 1_000 }
        try coder.require(bound, "rising")
    }
}

private enum Call: Coded, Equatable {
    case ask
    case tell(UInt64, String)
    case send(Part)

    func write(to writer: inout FieldWriter) {
        switch self {
        case .ask: writer.kind(0)
        case .tell(let number, let text): writer.kind(1, number, text)
        case .send(let part): writer.kind(2, part)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("call") {
        case 0: self = .ask
        case 1: self = .tell(try reader.payload(), try reader.payload())
        case 2: self = .send(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// Values that list their fields once.
@Suite struct CoderTests {
    private static let whole = Whole(
        part: Part(number: 300, text: "hé", bytes: [1, 2, 3], limit: 7),
        list: [Part(), Part(number: 5)],
        name: nil,
        most: 9,
        boot: 11,
        state: .on,
        isFirst: true,
        isLast: false,
        key: [13, 14],
        rising: [3, 9, 8]
    )

    private func failure(_ body: () throws(CodingFailure) -> Void) -> CodingFailure? {
        do {
            try body()
            return nil
        } catch {
            return error
        }
    }

    @Test func encodedBytesAreTheFieldsInTheirOrder() throws {
        let bytes: [UInt8] = [
            12, 0xac, 2, 3, 0x68, 0xc3, 0xa9, 3, 1, 2, 3, 1, 7,
            2, 4, 0, 0, 0, 0, 4, 5, 0, 0, 0,
            0, 9, 0, 0, 0, 0, 0, 0, 0, 11, 4, 1, 13, 14,
            3, 6, 12, 1,
        ]
        #expect(Self.whole.encoded == bytes)
        #expect(try Whole(decoding: bytes) == Self.whole)
        for call in [Call.ask, .tell(7, "x"), .send(Part(number: 4))] {
            #expect(try Call(decoding: call.encoded) == call)
        }
        #expect(Call.send(Part(number: 4)).encoded == [2, 4, 4, 0, 0, 0])
        #expect(Part(number: 4).encoded == [4, 0, 0, 0])
    }

    @Test func cutShortBytesAreRefusedWithFieldAndOffset() {
        let bytes = Self.whole.encoded
        for count in bytes.indices {
            let failure = failure { () throws(CodingFailure) in
                _ = try Whole(decoding: Array(bytes.prefix(count)))
            }
            #expect(failure?.reason == .cutShort && failure?.offset ?? .max <= count, "\(count)")
        }
        let boot = failure { () throws(CodingFailure) in
            _ = try Whole(decoding: Array(bytes.prefix(30)))
        }
        #expect(boot == CodingFailure(reason: .cutShort, field: "boot", offset: 26))
        #expect("\(boot!)" == "The bytes end within the field boot, at byte 26.")
    }

    @Test func bytesAfterAValueAreRefusedOrSkipped() throws {
        let bytes = Self.whole.encoded + [0]
        let left = failure { () throws(CodingFailure) in _ = try Whole(decoding: bytes) }
        #expect(left?.reason == .bytesLeft && left?.offset == bytes.count - 1)
        #expect(try Whole(decoding: bytes, skipsRest: true) == Self.whole)
        // A later release added a field of two bytes to a part.
        var later = Self.whole.encoded
        later[0] += 2
        later.insert(contentsOf: [8, 8], at: 13)
        #expect(try Whole(decoding: later) == Self.whole)
    }

    @Test func valuesThatAFieldCannotHaveAreRefused() {
        func reason(_ change: (inout [UInt8]) -> Void) -> CodingFailure? {
            var bytes = Self.whole.encoded
            change(&bytes)
            return failure { () throws(CodingFailure) in _ = try Whole(decoding: bytes) }
        }
        #expect(reason { $0[11] = 2 }?.field == "limit")
        #expect(reason { $0[34] = 2 }.map { "\($0.field) \($0.reason)" } == "state invalid")
        #expect(reason { $0[35] = 4 }?.field == "flags")
        #expect(
            reason {
                $0[39] = 0xfe
                $0.insert(0x7f, at: 40)
            }?.field == "rising"
        )
        // A count beyond the bytes that are left reserves nothing.
        #expect(
            reason { $0.replaceSubrange(13..<14, with: [0xff, 0xff, 0xff, 0x7f]) }?.field == "list"
        )
        let number = failure { () throws(CodingFailure) in
            _ = try UInt16(decoding: [0x80, 0x80, 4])
        }
        #expect(number?.reason == .invalid)
        let endless = failure { () throws(CodingFailure) in
            _ = try UInt64(decoding: [UInt8](repeating: 0x80, count: 11))
        }
        #expect(endless?.reason == .invalid)
        let kind = failure { () throws(CodingFailure) in _ = try Call(decoding: [9]) }
        #expect(kind == CodingFailure(reason: .unknownKind(9), field: "call", offset: 1))
    }

    @Test func randomBytesNeverTrap() {
        var random = SeededRandom(seed: 5)
        for _ in 0..<20_000 {
            var bytes = Self.whole.encoded
            for _ in 0...Int(random.next() % 4) {
                let index = Int(random.next() % UInt64(bytes.count))
                bytes[index] = UInt8(truncatingIfNeeded: random.next())
            }
            guard let value = try? Whole(decoding: bytes) else { continue }
            #expect((try? Whole(decoding: value.encoded)) == value)
        }
    }
}
