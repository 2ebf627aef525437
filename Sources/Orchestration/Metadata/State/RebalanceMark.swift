package import Bytes
package import Vocabulary

/// The agreed progress of a rebalance, in total and by node.
///
/// - A leader shows no more progress than `limit`, and proposes a new mark when there is more. So
///   the next leader starts at `limit`, and no client has seen more.
/// - No part of a mark ever decreases.
package struct RebalanceMark: Hashable, Sendable, CodedFields {
    /// The progress of one node.
    package struct Part: Hashable, Sendable {
        package var node: NodeNumber
        /// In thousandths.
        package var reached: UInt16

        package init(node: NodeNumber, reached: UInt16) {
            self.node = node
            self.reached = reached
        }
    }

    package static let whole: UInt16 = 1_000
    /// How far shown progress may exceed the mark: a rebalance proposes twenty marks, not one a
    /// move.
    private static let headroom: UInt16 = 50

    /// In thousandths.
    package var all: UInt16 = 0
    /// Sorted by node.
    package var parts: [Part] = []

    package init() {}

    package init(all: UInt16, parts: [Part]) {
        self.all = all
        self.parts = parts
    }

    /// Converts fractions in 0...1 to thousandths.
    package init(fraction all: Double, parts: [(node: NodeNumber, fraction: Double)]) {
        self.all = Self.thousandths(all)
        self.parts = parts.map { Part(node: $0.node, reached: Self.thousandths($0.fraction)) }
            .sorted { $0.node < $1.node }
    }

    private static func thousandths(_ fraction: Double) -> UInt16 {
        UInt16(min(max(fraction, 0), 1) * Double(whole))
    }

    private func reached(of node: NodeNumber) -> UInt16 {
        parts.first { $0.node == node }?.reached ?? 0
    }

    /// Agreed progress in 0...1: a lower bound of the actual progress.
    package var fraction: Double { Double(all) / Double(Self.whole) }

    /// Agreed progress of a node in 0...1; 0 if the mark does not contain it.
    package func fraction(of node: NodeNumber) -> Double {
        Double(reached(of: node)) / Double(Self.whole)
    }

    /// Progress that may be shown, in 0...1; 1 only if the rebalance is complete.
    package var limit: Double { Self.limit(all) }

    /// Progress of a node that may be shown, in 0...1.
    package func limit(of node: NodeNumber) -> Double { Self.limit(reached(of: node)) }

    private static func limit(_ reached: UInt16) -> Double {
        Double(limitInThousandths(reached)) / Double(whole)
    }

    private static func limitInThousandths(_ reached: UInt16) -> UInt16 {
        switch reached {
        // A rebalance that has just begun has shown no progress.
        case 0: 0
        case whole...: whole
        default: min(reached + headroom, whole - 1)
        }
    }

    /// Whether no part of `mark` exceeds what may be shown already.
    package func covers(_ mark: RebalanceMark) -> Bool {
        mark.all <= Self.limitInThousandths(all)
            && mark.parts.allSatisfy {
                $0.reached <= Self.limitInThousandths(reached(of: $0.node))
            }
    }

    mutating func raise(to mark: RebalanceMark) {
        all = min(max(all, mark.all), Self.whole)
        for part in mark.parts {
            let reached = min(part.reached, Self.whole)
            if let place = parts.firstIndex(where: { $0.node == part.node }) {
                parts[place].reached = max(parts[place].reached, reached)
            } else {
                parts.append(Part(node: part.node, reached: reached))
            }
        }
        parts.sort { $0.node < $1.node }
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&all, "progress")
        let blank = Part(node: NodeNumber(0), reached: 0)
        try coder.list(&parts, "parts", blank: blank) { coder, part throws(CodingFailure) in
            try coder.field(&part.node, "node")
            try coder.field(&part.reached, "progress of the node")
        }
    }
}
