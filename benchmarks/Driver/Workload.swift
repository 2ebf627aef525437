internal import Bytes
internal import Foundation
internal import JSON

/// A workload, as a file in `benchmarks/workloads` describes it.
///
/// A member that the file omits has the default here; the command line can override some.
struct Workload: Sendable {
    enum ValueKind: String, Sendable {
        case binary
        case json
    }

    enum Distribution: Sendable {
        case uniform
        /// A few keys get most of the requests; `skew` is the exponent, below 1.
        case zipfian(skew: Double)
    }

    var name = "unnamed"
    var keys = 100_000
    var keyBytes = 15
    var valueBytes = 1_024
    var value = ValueKind.binary
    /// Of 100 requests, how many are SETs; the others are GETs.
    var writePercent = 5.0
    var distribution = Distribution.uniform
    var connections = 50
    /// Requests in flight on each connection; in an open loop, requests sent at a time.
    var depth = 1
    /// Requests a second, independent of answers; 0 for a closed loop.
    var rate = 0.0
    var seconds = 10.0
    var warmUpSeconds = 2.0
    var preloads = true
    /// Measures how long changes stay unpersisted; needs mutation tokens.
    var samplesPersistence = false

    /// Reads a file of JSON; an unknown member is an error.
    init(file path: String) throws(BenchError) {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw BenchError("there is no workload file \(path)")
        }
        let tree = data.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let members = tree?.members else {
            throw BenchError("\(path) is not a JSON object")
        }
        name = URL(filePath: path).deletingPathExtension().lastPathComponent
        var skew: Double?
        for member in members {
            let isUnderstood = take(member, &skew)
            guard isUnderstood else {
                throw BenchError("\(path): invalid member \"\(member.name)\"")
            }
        }
        if let skew { distribution = .zipfian(skew: skew) }
        try validate()
    }

    private mutating func take(_ member: JSONValue.Member, _ skew: inout Double?) -> Bool {
        let value = member.value
        switch member.name {
        case "comment": return value.string != nil
        case "keys": return assign(value.int, to: &keys)
        case "keyBytes": return assign(value.int, to: &keyBytes)
        case "valueBytes": return assign(value.int, to: &valueBytes)
        case "value": return assign(value.string.flatMap(ValueKind.init), to: &self.value)
        case "writePercent": return assign(value.double, to: &writePercent)
        case "zipfianSkew":
            skew = value.double
            return skew != nil
        case "connections": return assign(value.int, to: &connections)
        case "depth": return assign(value.int, to: &depth)
        case "rate": return assign(value.double, to: &rate)
        case "seconds": return assign(value.double, to: &seconds)
        case "warmUpSeconds": return assign(value.double, to: &warmUpSeconds)
        case "preload": return assign(value.bool, to: &preloads)
        case "samplePersistence": return assign(value.bool, to: &samplesPersistence)
        default: return false
        }
    }

    private func assign<Value>(_ found: Value?, to place: inout Value) -> Bool {
        guard let found else { return false }
        place = found
        return true
    }

    func validate() throws(BenchError) {
        try require((1...100_000_000).contains(keys), "keys: 1 to 100 000 000")
        try require((12...250).contains(keyBytes), "keyBytes: 12 to 250")
        try require((0...(1 << 20)).contains(valueBytes), "valueBytes: 0 to 1 048 576")
        try require((0...100).contains(writePercent), "writePercent: 0 to 100")
        try require((1...10_000).contains(connections), "connections: 1 to 10 000")
        try require((1...4_096).contains(depth), "depth: 1 to 4 096")
        try require(rate >= 0 && rate.isFinite, "rate: 0 or more")
        try require(seconds >= 0 && warmUpSeconds >= 0, "seconds: 0 or more")
        if case .zipfian(let skew) = distribution {
            try require(skew > 0 && skew < 1, "zipfianSkew: between 0 and 1")
        }
        if value == .json {
            try require(valueBytes >= 16, "valueBytes: 16 or more for JSON")
        }
    }

    private func require(_ isRight: Bool, _ text: String) throws(BenchError) {
        if !isRight { throw BenchError("workload \(name): \(text)") }
    }
}

/// Why the driver cannot continue: one sentence for the user.
struct BenchError: Error, Sendable, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
