// What has no operators is described and counted, and refused where it would be trained.

// RUN: cleave inspect %S/configs/deepseek-v3.json | FileCheck %s --check-prefix=TEXT
// TEXT: parameters  671,026,419,200 in 45395 tensors
// TEXT-NEXT: active      37,552,297,472 a token
// TEXT-NEXT: layers      3 × dense (0–2)
// TEXT-NEXT: layers      58 × sparse (3–60)
// TEXT-NOT: num_key_value_heads  {{.*}}128
// TEXT: head_dim                   192
// TEXT: kv_lora_rank               512
// TEXT: num_experts                256
// TEXT: num_experts_per_tok        8
// TEXT: n_shared_experts           1
// TEXT: num_nextn_predict_layers   layers that predict further tokens are left out
// TEXT-NOT: can't be trained yet

// RUN: cleave inspect %S/configs/mixtral-8x7b.json --json | FileCheck %s --check-prefix=JSON
// JSON: "parameters": 46702792704,
// JSON-NEXT: "active_parameters": 12879925248,
// JSON-NEXT: "tensors": 995,
// JSON: "kind": "sparse"
// JSON: "num_experts": 8,
// JSON: "moe_intermediate_size": 14336

// RUN: cleave inspect %S/configs/qwen3-vl-30b-a3b.json | FileCheck %s --check-prefix=PARTS
// PARTS: family      qwen3_vl_moe
// PARTS-NEXT: parameters  30,532,122,624
// PARTS: vision_config              only the text model is compiled
// PARTS: note: the text model in "text_config" is what is described

// The first reason is the error, the others are notes; printed phases are refused too.
// RUN: not cleave compile %S/configs/minimax-m2.5.json --emit=nn 2>&1 | FileCheck %s --check-prefix=MINIMAX
// MINIMAX: minimax-m2.5.json:[[#]]:[[#]]: error[config.feature_unsupported]: layers of experts can't be trained yet ("num_local_experts")
// MINIMAX-NEXT: given: num_local_experts = 256
// MINIMAX-NEXT: rule:
// MINIMAX-NEXT: suggestion:

// RUN: not cleave compile %S/configs/llama-4-scout.json --cluster local:1 --emit=plan 2>&1 | FileCheck %s --check-prefix=LLAMA4
// LLAMA4: error[config.feature_unsupported]: attention in chunks can't be trained yet ("model_type")
// LLAMA4: note: layers of experts can't be trained yet ("num_local_experts")

// A value that would work is suggested where there is one.
// RUN: not cleave compile %S/configs/falcon-40b.json 2>&1 | FileCheck %s --check-prefix=FALCON
// FALCON: given: new_decoder_architecture = true
// FALCON: suggestion: "new_decoder_architecture": false


// What is left out is said when the rest is compiled.
// RUN: mkdir -p %t && cp %S/Inputs/parts.json %t/config.json
// RUN: cleave compile %t --cluster local:1 --seq-len 4 -o %t/train 2>&1 | FileCheck %s --check-prefix=NOTES
// NOTES: note: the text model in "text_config" is what is described; what the file has beside it for other media is not compiled
// NOTES: train: 944 parameters
