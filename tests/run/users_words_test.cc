#include "run/users_words.h"

#include <gtest/gtest.h>

#include "run/recipe_keys.h"

namespace trireme {
namespace {

TEST(UsersWords, MeanKeysThatARecipeHas) {
  for (const char* const word : {"lr",
                                 "min_lr",
                                 "wd",
                                 "warmup_steps",
                                 "clip_grad",
                                 "bs",
                                 "mbs",
                                 "seq_len",
                                 "n_layer",
                                 "n_head",
                                 "num_query_groups",
                                 "d_model",
                                 "d_ff",
                                 "vocab_size",
                                 "tp",
                                 "pp",
                                 "dp",
                                 "cp",
                                 "sp",
                                 "vpp",
                                 "zero_stage",
                                 "gradient_checkpointing",
                                 "max_steps",
                                 "epochs",
                                 "bf16",
                                 "random_seed",
                                 "data_path",
                                 "eval_interval",
                                 "eval_iters",
                                 "save_every",
                                 "lora_r",
                                 "optim",
                                 "adam_beta1",
                                 "adam_eps",
                                 "rope_base",
                                 "model_type",
                                 "save_total_limit",
                                 "train_samples"}) {
    EXPECT_NE(FindRecipeKey(KeyOfUsersWord(word)), nullptr) << word << " -> " << KeyOfUsersWord(word);
  }
  EXPECT_EQ(KeyOfUsersWord("lr"), "optimizer.learning_rate");
  EXPECT_EQ(KeyOfUsersWord("train.lr"), "optimizer.learning_rate");
  EXPECT_EQ(KeyOfUsersWord("--Seq-Len"), "model.sequence");
  EXPECT_EQ(KeyOfUsersWord("nonsense"), "");
  EXPECT_EQ(KeyOfUsersWord(""), "");
  EXPECT_EQ(TableOfUsersWord("parallelism"), "layout");
}

TEST(UsersWords, WhatIsLeftOutIsSaidWithTheNearest) {
  EXPECT_NE(NearestKey("model.capacity_factor").find("no token is dropped"), std::string::npos);
  EXPECT_NE(NearestKey("router_aux_loss_coef").find("model.balance_loss"), std::string::npos);
  EXPECT_EQ(ReasonAgainst("model.experts"), "");
}

}  // namespace
}  // namespace trireme
