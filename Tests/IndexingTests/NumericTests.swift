import Bytes
import Indexing
import TestSupport
import Testing

@Suite struct NumericTests {
    private func partial(_ values: [String]) -> NumericPartial {
        var partial = NumericPartial()
        for value in values { Array(value.utf8).withView { partial.add($0) } }
        return partial
    }

    private func text(_ values: [String], _ reduction: BuiltinReduction) -> String? {
        let output = ByteWriter()
        return partial(values).appendResult(of: reduction, to: output) ? output.view.text : nil
    }

    @Test(
        arguments: [
            (["1", "2", "3"], "6"), (["0.1", "0.2"], "0.30000000000000004"), (["1e400"], "null"),
            ([], "0"),
            (["9007199254740992", "1"], "9007199254740993"), (["1e300", "1", "-1e300"], "1"),
            (["-0"], "0"), (["1e21"], "1e+21"),
            (["123456789012345680000"], "123456789012345680000"),
            (["1.5e-7"], "1.5e-7"), (["0.000001"], "0.000001"), (["0.5", "0.25"], "0.75"),
            (["-12.5"], "-12.5"), (["5e-324"], "5e-324"), (["100", "0.001"], "100.001"),
            (["[1,2]", "[10,20,30]"], "[11,22,30]"), (["[1,2]", "5"], "[6,2]"), (["[]"], "[0]"),
        ] as [([String], String)]
    )
    func sumIsPrintedAsTheShortestText(values: [String], sum: String) {
        #expect(text(values, .sum) == sum)
    }

    @Test(arguments: [
        "\"1\"", "null", "true", "{}", "01", "1.", ".5", "+1", "1e", "--1", "", "[1,\"2\"]", "[1,]",
        "nan", "inf", "0x10", "1 ", "-",
    ])
    func valueThatIsNoNumberMakesSumAndStatsAnError(value: String) {
        #expect(text(["1", value], .sum) == nil)
        #expect(text([value, "1"], .stats) == nil)
        #expect(text([value, "1"], .count) == "2")
        #expect(partial(["1", value]).firstNonNumber == Array(value.utf8))
        let error = "Builtin _sum function requires map values to be numbers"
        #expect(BuiltinReduction.sum.valueError == error)
    }

    @Test func statsHaveTheMembersThatClientsExpect() {
        #expect(
            text(["1", "4", "-2.5"], .stats)
                == #"{"sum":2.5,"count":3,"min":-2.5,"max":4,"sumsqr":23.25}"#
        )
        #expect(text(["[1]"], .stats) == nil)
    }

    @Test func printedNumberIsReadBackAsTheSame() {
        var random = SeededRandom(seed: 61)
        let output = ByteWriter()
        for round in 0..<20_000 {
            let number = Double(bitPattern: random.next())
            guard number.isFinite else { continue }
            output.removeAll()
            NumberText.append(number, to: output)
            #expect(NumberText.parse(output.view) == number, "seed 61, round \(round): \(number)")
        }
    }

    @Test func sumIsIndependentOfMergeOrder() {
        var random = SeededRandom(seed: 62)
        for round in 0..<200 {
            let values = (0..<500).map { _ in
                "\((Double(random.below(1 << 40)) - 3e11) * (random.below(2) == 0 ? 1e-9 : 0.01))"
            }
            let whole = ReduceTests.texts(partial(values))
            var start = 0
            var parts: [NumericPartial] = []
            while start < values.count {
                let end = min(values.count, start + 1 + random.below(90))
                parts.append(partial(Array(values[start..<end])))
                start = end
            }
            while parts.count > 1 {
                let place = random.below(parts.count - 1)
                parts[place].merge(parts.remove(at: place + 1))
            }
            #expect(ReduceTests.texts(parts[0]) == whole, "seed 62, round \(round)")
        }
    }

    @Test func encodedPartialIsDecodedEqual() {
        let samples = [
            [], ["1"], ["0.1", "0.2", "1e30"], ["[1,2,0.1]", "7"], ["1", "\"text\"", "null"],
            ["[1]", "{}"], ["1e400", "-1e400"],
        ]
        for values in samples {
            let output = ByteWriter()
            let partial = partial(values)
            partial.encode(to: output)
            let decoded = NumericPartial(encoded: output.view)
            // NaN, the sum of two infinities, equals nothing.
            if partial.sum.value.isNaN { continue }
            #expect(decoded == partial)
            let bytes = output.bytes
            for length in 0..<bytes.count {
                let cut = Array(bytes[..<length]).withView { NumericPartial(encoded: $0) }
                #expect(cut != partial)
            }
        }
    }

    @Test func backEntryIsReadAsWritten() {
        let output = ByteWriter()
        let keys: [[UInt8]] = [
            [], [1, 2, 3], [UInt8](repeating: 9, count: 300), [0], [7, 0], [7, 0, 0], [0, 0, 0],
            [7, 0, 5, 0], [1] + [UInt8](repeating: 0, count: 200),
        ]
        for (index, key) in keys.enumerated() {
            key.withView {
                let row = BackEntry.Row(
                    sortKey: $0,
                    number: UInt16(index * 300),
                    valueChecksum: 0xdead_0000 + UInt32(index)
                )
                BackEntry.append(row, to: output)
            }
        }
        var found: [[UInt8]] = []
        let isValid = BackEntry.forEachRow(in: output.view) { row in
            #expect(Int(row.number) == found.count * 300)
            #expect(row.valueChecksum == 0xdead_0000 + UInt32(found.count))
            found.append(row.sortKey.bytes)
        }
        #expect(isValid && found == keys)
        #expect(!BackEntry.forEachRow(in: output.view.slice(0, output.count - 1)) { _ in })
    }
    /// A number's sort key: its type, and a double of which the last four bytes are zero.
    @Test func backEntryOfANumberStoresNoZeros() {
        let output = ByteWriter()
        [0x20, 0xc1, 0x25, 0xf6, 0x76, 0, 0, 0, 0].withView {
            BackEntry.append(
                BackEntry.Row(sortKey: $0, number: 0, valueChecksum: 0x0403_0201),
                to: output
            )
        }
        #expect(output.bytes == [5 << 2 | 1, 4, 0x20, 0xc1, 0x25, 0xf6, 0x76, 1, 2, 3, 4])
    }

    /// The bytes of a value, and what is wrong with it.
    @Test(arguments: [
        ([5 << 2, 1, 2, 3, 4], "fewer bytes than the head says"),
        ([1], "no number of zeros"), ([2], "no number of the row"),
        ([1, 0xff, 0xff, 0x7f, 1, 2, 3, 4], "more zeros than a key has bytes"),
        ([2, 0x80, 0x80, 0x04, 1, 2, 3, 4], "a number over 16 bits"),
        ([0, 1, 2, 3], "half a checksum"),
        (
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "a length over all bytes"
        ),
    ])
    func malformedBackEntryIsRefused(_ bytes: [UInt8], _ why: String) {
        let isValid = bytes.withView { value in BackEntry.forEachRow(in: value) { _ in } }
        #expect(!isValid, "\(why)")
    }
}
