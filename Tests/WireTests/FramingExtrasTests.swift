import Bytes
import Foundation
import Testing
import Vocabulary
import Wire

@Suite struct FramingExtrasTests {
    private func outcome(_ text: String) -> String {
        hex(text).withView { view in
            switch FramingExtras.parse(view) {
            case .parsed(let extras):
                let durability = extras.durability.map { requirement in
                    "\(requirement.level) \(requirement.timeoutMilliseconds.map(String.init) ?? "-")"
                }
                let parts = [
                    extras.isBarrier ? "barrier" : nil,
                    durability,
                    extras.streamID.map { "stream \($0)" },
                    extras.impersonated.map { "as \($0.text)" },
                    extras.preservesExpiry ? "keep" : nil,
                ]
                return parts.compactMap { $0 }.joined(separator: ", ")
            case .unknown(let id): return "unknown \(id)"
            case .levelInvalid(let level): return "level \(level)"
            case .malformed: return "malformed"
            }
        }
    }

    @Test func eachFramingItemIsDecoded() {
        #expect(outcome("") == "")
        #expect(outcome("00") == "barrier")
        #expect(outcome("11 01") == "majority -")
        #expect(outcome("13 02 05dc") == "majorityAndPersistOnActive 1500")
        #expect(outcome("13 03 fffe") == "persistToMajority 65534")
        #expect(outcome("22 0102") == "stream 258")
        #expect(outcome("43 626f62") == "as bob")
        #expect(outcome("50") == "keep")
        #expect(
            outcome("00 13 01 0001 22 0007 41 78 50") == "barrier, majority 1, stream 7, as x, keep"
        )
    }

    @Test func framingItemLengthOfFifteenContinuesInNextByte() {
        let name = String(repeating: "u", count: 20)
        let bytes = hex("4f 05") + Array(name.utf8) + hex("50")
        bytes.withView { view in
            guard case .parsed(let extras) = FramingExtras.parse(view) else {
                Issue.record("a name of 20 bytes was rejected")
                return
            }
            #expect(extras.impersonated?.text == name)
            #expect(extras.preservesExpiry)
        }
        #expect(outcome("f0 00") == "unknown 15")
        #expect(outcome("f1 02 00") == "unknown 17")
        // Both escaped: the id's byte comes first.
        #expect(outcome("ff 01 00" + String(repeating: "00", count: 15)) == "unknown 16")
        #expect(outcome("f0") == "malformed")
        #expect(outcome("4f") == "malformed")
        #expect(outcome("ff 01") == "malformed")
    }

    @Test func unknownIDAndWrongLengthAreDifferentErrors() {
        #expect(outcome("30") == "unknown 3")
        #expect(outcome("60") == "unknown 6")
        #expect(outcome("62 00") == "malformed")
        #expect(outcome("01 00") == "malformed")
        #expect(outcome("10") == "malformed")
        #expect(outcome("12 01 00") == "malformed")
        #expect(outcome("21 00") == "malformed")
        #expect(outcome("40") == "malformed")
        #expect(outcome("51 00") == "malformed")
    }

    /// Couchbase's C++ client repeats items when it retries a request.
    @Test func repeatedFramingItemsMustAgree() {
        #expect(outcome("50 50") == outcome("50"))
        #expect(outcome("11 01 11 01") == outcome("11 01"))
        #expect(outcome("13 01 05dc 13 01 03e8") == outcome("13 01 03e8"))
        #expect(outcome("11 01 11 02") == "malformed")
        #expect(outcome("22 0001 22 0002") == "malformed")
        #expect(outcome("41 61 41 62") == "malformed")
    }

    @Test func unknownDurabilityLevelsAndForbiddenTimeoutsAreRejected() {
        for level in UInt8.min...UInt8.max where !(1...3).contains(level) {
            #expect(outcome("11" + String(format: "%02x", level)) == "level \(level)")
        }
        #expect(outcome("13 01 0000") == "malformed")
        #expect(outcome("13 01 ffff") == "malformed")
    }

    @Test func encodedFramingExtrasDecodeToTheSameExtras() {
        let name = Array(String(repeating: "n", count: 200).utf8)
        name.withView { name in
            var extras = FramingExtras()
            extras.isBarrier = true
            extras.durability = DurabilityRequirement(
                level: .persistToMajority,
                timeoutMilliseconds: 2_500
            )
            extras.streamID = 9
            extras.impersonated = name
            extras.preservesExpiry = true
            let bytes = written { extras.append(to: $0) }
            bytes.withView { view in
                guard case .parsed(let read) = FramingExtras.parse(view) else {
                    Issue.record("the encoded extras were rejected")
                    return
                }
                #expect(read.isBarrier && read.preservesExpiry)
                #expect(read.durability == extras.durability)
                #expect(read.streamID == 9)
                #expect(read.impersonated?.bytes == name.bytes)
            }
            for length in 1..<bytes.count {
                Array(bytes.prefix(length)).withView { _ = FramingExtras.parse($0) }
            }
        }
    }

    /// Found by the fuzzer: the encoder rejected lengths that the decoder accepts.
    @Test(arguments: [1, 14, 15, 16, 255, 256, FramingExtras.itemBytesMax])
    func framingItemsOfEveryPossibleLengthDecode(count: Int) {
        let name = [UInt8](repeating: 0x6e, count: count)
        name.withView { name in
            var extras = FramingExtras()
            extras.impersonated = name
            let bytes = written { extras.append(to: $0) }
            #expect(bytes.count == count + (count < 15 ? 1 : 2))
            bytes.withView { view in
                guard case .parsed(let read) = FramingExtras.parse(view) else {
                    Issue.record("the encoded extras were rejected")
                    return
                }
                #expect(read.impersonated?.bytes == name.bytes)
            }
        }
    }

    @Test func serverDurationMatchesTheFormula() {
        let samples =
            Array(1..<5_000) + [10_000, 65_536, 1_000_000, 7_654_321, 60_000_000, 120_000_000]
        for microseconds in samples {
            let exact = min(pow(Double(microseconds) * 2, 1 / 1.74), 65_535)
            let encoded = Double(ServerDuration(microseconds: UInt64(microseconds)).encoded)
            #expect(abs(encoded - exact) <= 0.500_001, "\(microseconds) us")
        }
        #expect(ServerDuration(microseconds: 0).encoded == 1)
        #expect(ServerDuration(microseconds: 120_125_042).encoded == 65_535)
        #expect(ServerDuration(microseconds: .max).encoded == 65_535)
    }
}
