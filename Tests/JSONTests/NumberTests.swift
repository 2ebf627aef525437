import Bytes
import JSON
import Testing

@Suite struct NumberTests {
    let collation = try? Collation()

    /// What `JSON.stringify` prints, by ECMA-262, Number::toString.
    @Test func numbersArePrintedAsJavaScriptPrintsThem() {
        let numbers: [(Double, String)] = [
            (0, "0"), (-0.0, "0"), (1, "1"), (-1, "-1"), (100, "100"), (0.1, "0.1"), (-1.5, "-1.5"),
            (123_456.789, "123456.789"), (1_000_000.5, "1000000.5"), (100.25, "100.25"),
            (1e20, "100000000000000000000"), (123e18, "123000000000000000000"), (1e21, "1e+21"),
            (1.5e21, "1.5e+21"), (-1e21, "-1e+21"), (1e-6, "0.000001"), (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"), (0.00012, "0.00012"), (1.0203e-5, "0.000010203"),
            (.leastNonzeroMagnitude, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
            (9_007_199_254_740_991, "9007199254740991"), (0x1p53, "9007199254740992"),
            (0x1p60, "1152921504606847000"), (0x1p63, "9223372036854776000"),
            (0.1 + 0.2, "0.30000000000000004"), (1e23, "1e+23"), (1e22, "1e+22"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"), (4.35, "4.35"),
            (1.0 / 3, "0.3333333333333333"), (.infinity, "1e400"), (-.infinity, "-1e400"),
        ]
        for (number, text) in numbers { #expect(TestKey.numberText(number) == text) }
    }

    @Test func printedNumbersAreShortestAndReadBackExactly() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for round in 0..<5_000 {
            // Half of them have few digits and a small exponent.
            let small = Double(Int64.random(in: -99_999_999...99_999_999, using: &random))
            let scale = [1, 10, 1e3, 1e5, 1e12, 1e15][Int(random.next() % 6)]
            let number = round % 2 == 0 ? TestKey.anyNumber(&random) : small / scale
            let text = TestKey.numberText(number)
            #expect(Double(text) == number, "seed \(seed): \(number)")
            #expect(digits(text) == digits("\(number)"), "seed \(seed): \(number)")
        }
    }

    /// The digits that count, without sign, point, exponent and zeros at the ends.
    private func digits(_ text: String) -> [UInt8] {
        let mantissa = text.utf8.prefix { $0 != UInt8(ascii: "e") }.filter { $0 >= 0x30 }
        let trimmed = mantissa.drop { $0 == 0x30 }.reversed().drop { $0 == 0x30 }
        return trimmed.reversed()
    }

    /// Texts beside the middle of two doubles, at the bounds of exact arithmetic, and huge ones.
    @Test func parsedNumbersAreRoundedToTheNearestDouble() throws {
        let collation = try #require(collation)
        let zeros = String(repeating: "0", count: 400)
        // The middle between the greatest double and the power of two that would follow it.
        let middle =
            "17976931348623158079372897140530341507993413271003782693617377898044496829276475"
            + "09466490179775872070963302864166928879109465555478519404026306574886715058206819"
            + "08902000708383676273854845817711531764475730270069855571366959622842914819860834"
            + "936475292719074168444365510704342711559699508093042880177904174497792"
        let below = String(middle.dropLast()) + "1.9"
        let texts: [(String, Double)] = [
            ("123e0", 123), ("123.0", 123), ("1230e-1", 123), ("0.1e1", 1), ("1E2", 100),
            ("1e+2", 100), ("-0", 0), ("-0e9", 0), ("0e999999999999", 0), ("1e22", 1e22),
            ("1e23", 1e23), ("9007199254740993", 9_007_199_254_740_992),
            ("9007199254740995", 9_007_199_254_740_996), ("9007199254740993.0001", 0x1p53 + 2),
            ("2.2250738585072011e-308", .leastNormalMagnitude.nextDown),
            ("5e-324", .leastNonzeroMagnitude),
            ("2.4703282292062327e-324", 0), ("2.4703282292062328e-324", .leastNonzeroMagnitude),
            ("1.7976931348623158e308", .greatestFiniteMagnitude),
            ("1.7976931348623159e308", .infinity),
            ("1e309", .infinity), ("-1e400", -.infinity), ("1e99999999999999999999", .infinity),
            ("1e-400", 0), ("1e-99999999999999999999", 0), ("1" + zeros, .infinity),
            ("0." + zeros + "1e401", 1), ("1" + zeros + "e-400", 1), ("0.000001", 1e-6),
            (middle, .infinity), (middle + ".0", .infinity),
            (below, .greatestFiniteMagnitude),
            ("4.35", 4.35), ("0.30000000000000004", 0.1 + 0.2), ("1e01", 10), ("3e-22", 3e-22),
            ("3e-23", 3e-23), ("12345678901234567890", 12_345_678_901_234_567_168),
        ]
        for (text, number) in texts {
            let expected = number == 0 ? "0" : TestKey.numberText(number)
            #expect(collation.key(text).flatMap { Collation.json($0)?.text } == expected, "\(text)")
        }
    }

    /// The exact path of the parser against the standard library.
    @Test func parsedNumbersEqualTheStandardLibrarys() throws {
        let collation = try #require(collation)
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<5_000 {
            let digits = Int.random(
                in: 0...(1 << Int.random(in: 1...60, using: &random)),
                using: &random
            )
            let exponent = Int.random(in: -30...30, using: &random)
            let fraction = Int.random(in: 0...9_999, using: &random)
            let text = ["", "-"][Int(random.next() & 1)] + "\(digits).\(fraction)e\(exponent)"
            let number = try #require(Double(text))
            let key = try #require(collation.key(text))
            let expected = number == 0 ? "0" : TestKey.numberText(number)
            #expect(Collation.json(key)?.text == expected, "seed \(seed): \(text)")
        }
    }
}
