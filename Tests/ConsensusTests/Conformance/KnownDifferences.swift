/// Where we differ from the record of a script, and why that is safe.
enum KnownDifference {
    /// With us a configuration is in force once it stands in the log (thesis 4.1), with them once
    /// its entry is applied. From that entry on we ask the new majorities, they the old ones, so
    /// one of us commits earlier. Either is safe: whatever is decided has a majority of the newest
    /// configuration that the decider knows, and two neighbours in the log always overlap.
    case inForceAtOnce
    /// A leader that a change removes leads until that change is committed by the others, and
    /// steps down at that moment (thesis 4.2.2). They stay leader, or step down when the change is
    /// applied, which the old majority may have committed with more behind it. What we leave
    /// uncommitted the next leader commits: it is in the logs of a majority.
    case removedLeaderStepsDown
    /// Our leader changes no configuration before something of its term is committed (the hole in
    /// single-server changes that Ongaro published after the thesis), so the driver has to ask
    /// once more, and the change comes one step later.
    case changesAfterItsFirstCommit
    /// The script hands out one committed entry at a time; ours hands out all there are.
    case appliesAllAtOnce

    /// By script; each as a failing test would print it.
    static let all: [String: [String: KnownDifference]] = [
        "confchange_disable_validation": [
            "44: 1 configuration: voters=(1), ours voters=(1)&&(1) learners=(2 3)":
                .appliesAllAtOnce
        ],
        "confchange_v1_remove_leader": [
            "85: 1 commit: 5, ours 3": .inForceAtOnce,
            "85: 1 configuration: voters=(2 3), ours voters=(1 2 3)": .inForceAtOnce,
            "110: 1 voter: (Non-Voter), ours (Voter)": .inForceAtOnce,
            "117: 2 commit: 5, ours 3": .inForceAtOnce,
            "117: 2 configuration: voters=(2 3), ours voters=(1 2 3)": .inForceAtOnce,
            "146: 1 commit: 6, ours 4": .removedLeaderStepsDown,
            "146: 2 commit: 6, ours 4": .removedLeaderStepsDown,
            "146: 3 commit: 6, ours 4": .removedLeaderStepsDown,
            "246: 1 role now: StateLeader, ours StateFollower": .removedLeaderStepsDown,
            "246: 1 leader now: 1, ours 0": .removedLeaderStepsDown,
        ],
        "confchange_v1_remove_leader_stepdown": [
            "84: 1 commit: 5, ours 3": .inForceAtOnce,
            "84: 1 role: StateFollower, ours StateLeader": .inForceAtOnce,
            "84: 1 leader: 0, ours 1": .inForceAtOnce,
            "84: 1 configuration: voters=(2 3), ours voters=(1 2 3)": .inForceAtOnce,
            "113: 1 role now: StateFollower, ours StateLeader": .inForceAtOnce,
            "113: 1 voter: (Non-Voter), ours (Voter)": .inForceAtOnce,
            "113: 1 leader now: 0, ours 1": .inForceAtOnce,
            "120: 2 commit: 5, ours 3": .inForceAtOnce,
            "120: 2 configuration: voters=(2 3), ours voters=(1 2 3)": .inForceAtOnce,
            "149: 1 commit: 5, ours 4": .removedLeaderStepsDown,
            "149: 2 commit: 5, ours 4": .removedLeaderStepsDown,
            "149: 3 commit: 5, ours 4": .removedLeaderStepsDown,
        ],
        "confchange_v2_add_double_auto": [
            "54: 1 commit: 4, ours 2": .changesAfterItsFirstCommit,
            "54: 1 configuration: voters=(1 2 3)&&(1) autoleave, ours voters=(1)":
                .changesAfterItsFirstCommit,
            "254: 1 commit: 6, ours 9": .inForceAtOnce,
            "254: 1 configuration: voters=(1)&&(1 2 3) autoleave, ours voters=(1)":
                .inForceAtOnce,
            "288: 2 commit: 6, ours 9": .inForceAtOnce,
            "288: 2 configuration: voters=(1)&&(1 2 3) autoleave, ours voters=(1)":
                .inForceAtOnce,
            "288: 3 commit: 6, ours 9": .inForceAtOnce,
            "288: 3 configuration: voters=(1)&&(1 2 3) autoleave, ours voters=(1)":
                .inForceAtOnce,
        ],
    ]

    /// The scripts that do not end as their records do, and in what: term and configuration of
    /// every member are the record's even there.
    static let atEnd: [String: Set<String>] = [
        "confchange_v1_remove_leader": ["commit", "role now", "leader now"],
        "confchange_v1_remove_leader_stepdown": ["commit"],
    ]
}
