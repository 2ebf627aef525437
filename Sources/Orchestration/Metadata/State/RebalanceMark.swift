package import Vocabulary

/// How far a rebalance was when its leader last had it agreed on: of all, and of each node's part.
///
/// - A leader shows no more than `limit`, and has a new mark agreed on where there is more. So
///   whoever leads next begins at the limit, and nobody has seen more.
/// - No part of it ever falls.
package struct RebalanceMark: Hashable, Sendable {
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
    /// How far beyond the mark may be shown: a rebalance takes twenty of them, not one a move.
    private static let headroom: UInt16 = 50

    /// In thousandths.
    package var all: UInt16
    /// In the order of the nodes.
    package var parts: [Part]

    package init(all: UInt16 = 0, parts: [Part] = []) {
        self.all = all
        self.parts = parts
    }

    /// From fractions in 0...1.
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

    /// In 0...1; all that is known for sure to have been reached.
    package var fraction: Double { Double(all) / Double(Self.whole) }

    package func fraction(of node: NodeNumber) -> Double {
        Double(reached(of: node)) / Double(Self.whole)
    }

    /// In 0...1; 1 only where all is done.
    package var limit: Double { Self.limit(all) }

    package func limit(of node: NodeNumber) -> Double { Self.limit(reached(of: node)) }

    private static func limit(_ reached: UInt16) -> Double {
        Double(limitInThousandths(reached)) / Double(whole)
    }

    private static func limitInThousandths(_ reached: UInt16) -> UInt16 {
        switch reached {
        // Nothing was shown of one that has just begun.
        case 0: 0
        case whole...: whole
        default: min(reached + headroom, whole - 1)
        }
    }

    /// Nothing of `mark` is beyond what may be shown already.
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
}
